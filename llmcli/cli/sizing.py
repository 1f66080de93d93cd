"""From what was asked about models to what is printed about them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from llmcli import console
from llmcli.cli.estimate import SizeFormat, Verification
from llmcli.cli.size_flags import Question, SizeFlags, question
from llmcli.cli.size_plot import check_plot, plot
from llmcli.cli.verifying import refuse_verifying, refuse_without_config, verified
from llmcli.errors import ModelError, UsageError
from llmcli.estimate.plan import estimate
from llmcli.estimate.prompt_file import count_prompt, read_prompt
from llmcli.estimate.readable import readable
from llmcli.estimate.report import Estimate
from llmcli.estimate.sources import find
from llmcli.estimate.subject import Subject


@dataclass(frozen=True, slots=True)
class Sizing:
    """Which models to size, and how. models: none for the registry's default."""

    models: tuple[str, ...]
    registry: Path | None
    flags: SizeFlags
    prompt_file: Path | None = None
    verify: Verification | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """What is made of the answer. plot: a file to draw into."""

    format: SizeFormat
    plot: Path | None = None


def answer(sizing: Sizing, output: Output) -> None:
    """Size the models and print the answer: all of them, or the error of the first that cannot be sized."""
    asked = question(sizing.flags)
    if asked.notice is not None:
        console.say(f"notice: {asked.notice}")
    if sizing.verify is not None:
        refuse_verifying(asked)
    if output.plot is not None:
        check_plot(output.plot)
    prompt = None if sizing.prompt_file is None else read_prompt(sizing.prompt_file)
    subjects = _subjects(sizing)
    estimates = []
    for subject in subjects:
        with _named(subject.name, alone=len(subjects) == 1):
            estimates.append(_sized(subject, asked, sizing, prompt))
    if sizing.verify is not None:
        console.say("notice: --verify loads torch and transformers, and builds the model …")
        estimates = [
            _verified(*pair, asked, sizing.verify, alone=len(subjects) == 1)
            for pair in zip(estimates, subjects, strict=True)
        ]
    _show(estimates, subjects, output.format)
    if output.plot is not None:
        plot(subjects, estimates, asked, output.plot)


def _subjects(sizing: Sizing) -> list[Subject]:
    """The models in the order of the arguments; where two have one name, each is called by its argument."""
    arguments: Sequence[str | None] = sizing.models or (None,)
    for argument in arguments:
        if arguments.count(argument) > 1:
            raise UsageError(f"MODEL {argument} is there twice", "Name each model once.")
    subjects = []
    for argument in arguments:
        with _named(argument or "", alone=len(arguments) == 1):
            subjects.append(find(argument, sizing.registry))
    names = [subject.name for subject in subjects]
    return [
        _readable(replace(subject, name=argument) if argument and names.count(subject.name) > 1 else subject)
        for subject, argument in zip(subjects, arguments, strict=True)
    ]


def _readable(subject: Subject) -> Subject:
    """With a name and notes that JSON and pictures can hold, whatever the files are called."""
    return replace(
        subject,
        name=readable(subject.name),
        assumptions=tuple(map(readable, subject.assumptions)),
        warnings=tuple(map(readable, subject.warnings)),
    )


@contextmanager
def _named(name: str, *, alone: bool) -> Iterator[None]:
    """Let an error say which of several models it is about."""
    try:
        yield
    except (ModelError, UsageError) as error:
        if alone or name in error.message:
            raise
        raise type(error)(f"{name}: {error.message}", error.hint) from None


def _sized(subject: Subject, asked: Question, sizing: Sizing, prompt: str | None) -> Estimate:
    request, counted = asked.request, None
    if sizing.verify is not None:
        refuse_without_config(subject)
    if prompt is not None and sizing.prompt_file is not None:
        counted = count_prompt(prompt, sizing.prompt_file, subject)
        if request.contexts is None:
            note = f"context: the {counted.tokens} tokens of {counted.file}; chat template and answer come on top"
            request = replace(request, contexts=(counted.tokens,))
            subject = replace(subject, assumptions=(note, *subject.assumptions))
    return replace(estimate(subject, request, asked.engine), prompt=counted, gpus=asked.gpus)


def _verified(sized: Estimate, subject: Subject, asked: Question, how: Verification, *, alone: bool) -> Estimate:
    with _named(subject.name, alone=alone):
        return verified(sized, subject, asked, how.value)


def _show(estimates: Sequence[Estimate], subjects: Sequence[Subject], how: SizeFormat) -> None:
    """Print data on stdout; warnings, which JSON has inside, on stderr."""
    if how is SizeFormat.json:
        many = {"schema": "llmcli.estimates/1", "estimates": estimates}
        console.write_json(estimates[0] if len(estimates) == 1 else many)
    elif how is SizeFormat.table:
        from llmcli.estimate.render.page import show_page
        from llmcli.estimate.render.several import show_several

        if len(estimates) == 1:
            show_page(estimates[0], subjects[0].architecture)
        else:
            show_several(estimates)
    else:
        from llmcli.estimate.render.data import show_data

        show_data(estimates, "csv" if how is SizeFormat.csv else "md")
