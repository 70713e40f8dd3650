"""The Hugging Face hub and its mirrors (HF_ENDPOINT): listings by `huggingface_hub`, refusals by the hub's own headers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.settings import Settings
from tuneloop.tools.hub.http import busy_answer, connection_lost, gated_error, missing_error, no_hub_error
from tuneloop.tools.hub.listing import HubListing, HubRequest, RemoteFile

if TYPE_CHECKING:
    import httpx2
    from huggingface_hub.hf_api import DatasetInfo, ModelInfo

PUBLIC = "https://huggingface.co"
UNAUTHORIZED, FORBIDDEN = 401, 403


class HuggingFace:
    """`name`, `endpoint`, the setting that names it, and the headers that go to the endpoint alone."""

    def __init__(self, settings: Settings) -> None:
        """Raises InvalidRequestError when HF_ENDPOINT is no address."""
        self.variable = "HF_ENDPOINT"
        self.name = "huggingface"
        self.endpoint = (settings.hf_endpoint or PUBLIC).rstrip("/")
        if not self.endpoint.startswith(("http://", "https://")):
            raise InvalidRequestError(f"HF_ENDPOINT={self.endpoint}: right is an address such as {PUBLIC}")
        self.token = settings.hf_token.get_secret_value() if settings.hf_token else ""
        self.headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def listing(self, wanted: HubRequest) -> HubListing:
        """All files at the revision. Raises InvalidRequestError, InfrastructureError, or Busy."""
        import httpx2  # these are slow to import, and most runs fetch nothing
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled

        try:
            info = self._info(wanted)
            return HubListing(commit=str(info.sha), files=tuple(_files(info)))
        except HFValidationError as e:
            raise InvalidRequestError(f"{wanted}: no hub has such a name; right is org/name") from e
        except OfflineModeIsEnabled as e:
            raise InvalidRequestError(f"{wanted} is not here and HF_HUB_OFFLINE forbids to fetch it: unset it") from e
        except HfHubHTTPError as e:
            raise self.refusal(e.response, wanted) from e
        except httpx2.HTTPError as e:
            raise connection_lost(self, e) from e
        except (ValueError, TypeError, KeyError) as e:
            raise no_hub_error(self.endpoint, "HF_ENDPOINT", PUBLIC) from e

    def _info(self, wanted: HubRequest) -> ModelInfo | DatasetInfo:
        from huggingface_hub import HfApi

        api = HfApi(endpoint=self.endpoint, token=self.token or False)  # False: not one that lies about on this machine
        ask = api.model_info if wanted.kind == "model" else api.dataset_info
        info = ask(wanted.name, revision=wanted.revision, files_metadata=True, timeout=30.0)
        if not info.sha or info.siblings is None:
            raise no_hub_error(self.endpoint, "HF_ENDPOINT", PUBLIC)
        return info

    def url(self, wanted: HubRequest, listing: HubListing, file: RemoteFile) -> str:
        """Where a file is asked for."""
        from huggingface_hub import hf_hub_url

        return hf_hub_url(
            wanted.name, file.path, repo_type=wanted.kind, revision=listing.commit, endpoint=self.endpoint
        )

    def refusal(self, response: httpx2.Response, wanted: HubRequest) -> Exception:
        """What an answer of 400 or more means."""
        if busy := busy_answer(response, self.endpoint, "HF_TOKEN"):
            return busy
        folder = "datasets/" if wanted.kind == "dataset" else ""
        known: dict[str, Exception] = {
            "GatedRepo": gated_error(wanted, f"{self.endpoint}/{folder}{wanted.name}", "HF_TOKEN"),
            "RepoNotFound": missing_error(wanted, self.endpoint, "HF_TOKEN"),
            "RevisionNotFound": InvalidRequestError(
                f"{wanted} has no revision {wanted.revision!r}; right is a commit, a tag or a branch of it"
            ),
        }
        refused = InvalidRequestError(
            f"HF_TOKEN is refused by {self.endpoint}: make a new one at {PUBLIC}/settings/tokens"
        )
        why = str(response.headers.get("X-Error-Code"))
        if response.status_code == UNAUTHORIZED and why not in known:
            return refused if self.token else known["RepoNotFound"]
        if response.status_code == FORBIDDEN and why not in known:
            return InvalidRequestError(f"{wanted} may not be read (403): set HF_TOKEN to a token that may read it")
        return known.get(why) or no_hub_error(self.endpoint, "HF_ENDPOINT", PUBLIC)


def _files(info: ModelInfo | DatasetInfo) -> Iterator[RemoteFile]:
    for file in info.siblings or ():
        if file.size is None or not (file.lfs or file.blob_id):
            raise ValueError(f"{file.rfilename} has no size or no hash")
        sha256 = file.lfs.sha256 if file.lfs else ""
        yield RemoteFile(path=file.rfilename, size=file.size, sha256=sha256, git=file.blob_id or "")
