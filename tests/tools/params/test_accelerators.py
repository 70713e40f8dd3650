import pytest

from tuneloop.tools.params.accelerators import BF16, FP8, accelerator, is_known


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
    found = accelerator(name)
    assert (found.kind, found.capability) == (kind, capability)
    assert is_known(name)


def test_what_a_card_lacks() -> None:
    assert accelerator("T4").lacks(BF16)
    assert not accelerator("A100").lacks(BF16)
    assert accelerator("A100").lacks(FP8)
    assert not accelerator("cuda").lacks(FP8)
    assert not is_known("toaster")
