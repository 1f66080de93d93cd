"""What the hub, the network or the cache's disk says when a fetch fails, turned into our errors."""

import contextlib
import errno
from collections.abc import Iterator

from llmcli import paths
from llmcli.errors import LlmcliError, ModelError, ModelNotFound, OutOfMemory
from llmcli.models import hub_cache
from llmcli.models.source import HubSource

CACHE_HINT = "Free some space, or set HF_HOME to a directory on a larger disk."
_FULL = {errno.ENOSPC, errno.EDQUOT}
_LOGIN = "log in with `hf auth login` or set HF_TOKEN"


@contextlib.contextmanager
def translated(source: HubSource, near: str | None = None) -> Iterator[None]:
    """Raise ModelError and its kin, OutOfMemory or LlmcliError for what goes wrong inside; near: an alias like it."""
    from huggingface_hub import errors

    try:
        yield
    except errors.OfflineModeIsEnabled:
        raise _offline(source) from None
    except errors.GatedRepoError as error:
        raise _gated(source, error) from error
    except errors.RevisionNotFoundError as error:
        raise ModelNotFound(
            f"{source.repo} has no revision {source.reference!r} on the hub",
            f"Its branches, tags and commits: {_page(source)}/tree/main",
        ) from error
    except errors.RemoteEntryNotFoundError as error:
        raise ModelError(f"{source.repo}: a file that the hub lists is not there", "Try again.") from error
    except errors.HfHubHTTPError as error:
        raise _refused(source, error, near) from error
    except (errors.LocalEntryNotFoundError, errors.FileMetadataError) as error:
        raise _unanswered(source, error, near) from error
    except errors.HTTPError as error:  # type: ignore[attr-defined]  # the HTTP client's own base class
        raise _unreachable(f"{type(error).__name__}: {_first_line(error)}") from error
    except OSError as error:
        raise _disk(error) from error


def _offline(source: HubSource) -> ModelNotFound:
    cache = paths.display(hub_cache.cache_dir())
    return ModelNotFound(
        f"{source} is not in the hub's cache ({cache}), or not all of it, and HF_HUB_OFFLINE is set",
        "Unset HF_HUB_OFFLINE to fetch it.",
    )


def _gated(source: HubSource, error: Exception) -> ModelError:
    status = _status(error)
    known = "the account of your token has no access yet" if status == 403 else "no token is set"
    return ModelError(
        f"{source.repo} is gated: its makers ask you to accept a licence first, and {known}",
        f"Accept it at {_page(source)}, then {_LOGIN}.",
    )


def _refused(source: HubSource, error: Exception, near: str | None) -> LlmcliError:
    status = _status(error)
    if status == 401 and "credentials" in str(error).lower():
        return ModelError(f"the hub refuses your token: {_first_line(error)}", f"To renew it, {_LOGIN}.")
    if status in {401, 404}:
        guess = f"Did you mean {near}? " if near else ""
        return ModelNotFound(
            f"{source.repo!r} is no alias, no path and no model on the hub, or it is private there",
            f"{guess}Check the id; for a private model, {_LOGIN}.",
        )
    if status == 403:
        return ModelError(f"the hub forbids access to {source.repo}", f"See {_page(source)}, or {_LOGIN}.")
    if status == 429:
        return ModelError("the hub has had too many requests from here", f"Wait some minutes, or {_LOGIN}.")
    return _unreachable(f"it answers {status}" if status else _first_line(error))


def _unanswered(source: HubSource, error: Exception, near: str | None) -> LlmcliError:
    """What huggingface_hub says when a file is not in the cache and the hub did not answer, or not as a hub does."""
    cause = error.__cause__
    if _status(cause) is not None and isinstance(cause, Exception):
        return _refused(source, cause, near)
    return _unreachable(_first_line(cause or error))


def _unreachable(reason: str) -> ModelError:
    from huggingface_hub import constants

    return ModelError(
        f"the model hub {constants.ENDPOINT} cannot be reached: {reason}",
        "Check network and proxy and try again, a part that has come in is kept; HF_ENDPOINT names another hub.",
    )


def _disk(error: OSError) -> LlmcliError:
    cache = paths.display(hub_cache.cache_dir())
    if error.errno in _FULL:
        return OutOfMemory(f"the disk of {cache} is full", f"{CACHE_HINT} What has come in is kept.")
    if error.errno is None:
        return _unreachable(_first_line(error))
    reason = error.strerror or _first_line(error)
    return LlmcliError(f"{cache} cannot be written: {reason}", "Set HF_HOME to a directory that you may write to.")


def _status(error: object) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)


def _page(source: HubSource) -> str:
    from huggingface_hub import constants

    return f"{constants.ENDPOINT}/{source.repo}"


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
