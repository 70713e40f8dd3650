import pytest

from tuneloop.tools.config.context import BF16, FP8, find_accelerator, is_known_device


@pytest.mark.parametrize(
    ("name", "kind", "capability"),
    [
        ("cpu", "cpu", None),
        ("cuda", "cuda", None),
        ("cuda:0", "cuda", None),
        ("cuda:V100", "cuda", 7.0),
        ("Tesla T4", "cuda", 7.5),
        ("NVIDIA A100-SXM4-80GB", "cuda", 8.0),
        ("RTX 4090", "cuda", 8.9),
        ("cuda:NVIDIA H200", "cuda", 9.0),
        ("cuda:8.6", "cuda", 8.6),
        ("L40S", "cuda", 8.9),
        ("npu", "npu", None),
    ],
)
def test_names_of_devices(name: str, kind: str, capability: float | None) -> None:
    found = find_accelerator(name)
    assert (found.kind, found.capability) == (kind, capability)
    assert is_known_device(name)


def test_what_a_card_lacks() -> None:
    assert find_accelerator("T4").lacks(BF16)
    assert not find_accelerator("A100").lacks(BF16)
    assert find_accelerator("A100").lacks(FP8)
    assert not find_accelerator("cuda").lacks(FP8)
    assert not is_known_device("toaster")
