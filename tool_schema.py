"""What a typed function says about itself: its JSON Schema, and the check of a model's arguments against it.

Covered here: reading signature and docstring, the schema in the form that OpenAI's API takes, and
turning the JSON text of a call into checked keyword arguments, or into a sentence that a model can
act on. Not covered: calling the function and what becomes of its result (`tools.py`).

`pydantic` does the typing. It is imported at the first use, not with this module, because it takes
about 0.1 s and the prompt should be there before that.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, NamedTuple, NotRequired, get_args, get_origin, get_type_hints

from turns import clean_text

JsonSchema = dict[str, Any]

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""Names that OpenAI's API accepts for a function (API reference, `tools[].function.name`)."""

MAX_DESCRIPTION = 1_024
"""Characters of a function's description; OpenAI's API answers 400 to a longer one."""

SHOWN = 120
"""Characters of a wrong value that an error text quotes."""

_SECTION = re.compile(r"(Args|Arguments|Parameters|Returns|Raises|Yields|Examples?|Notes?):\s*$")
_REFERENCE = re.compile(r'"#/\$defs/([^"]+)"')
_ENTRY = re.compile(r"(\w+)\s*(?:\([^)]*\))?:\s*(.*)")

# The keywords of JSON Schema that hold further schemas; everything else (default, enum, ...) is data.
_SCHEMA_MAPS = ("properties", "patternProperties")
_SCHEMA_LISTS = ("anyOf", "allOf", "oneOf", "prefixItems")
_SCHEMAS = ("items", "additionalProperties", "contains", "not", "propertyNames")


class ToolDefinitionError(TypeError):
    """A function that cannot be a tool; the message says what to add or change."""


class ArgumentsError(ValueError):
    """Arguments that do not fit; the message names the argument and what is allowed, for the model."""


class Parameter(NamedTuple):
    """One parameter of a tool, as its function declares it."""

    annotation: Any
    description: str
    default: Any

    @property
    def required(self) -> bool:
        """Whether a call must give it."""
        return self.default is inspect.Parameter.empty


@dataclass(frozen=True)
class Signature:
    """Name, description and parameters of a tool; made by `read_signature`.

    The schema is worked out when it is first asked for, because that imports pydantic.
    """

    name: str
    description: str
    parameters: Mapping[str, Parameter]

    @cached_property
    def schema(self) -> JsonSchema:
        """The JSON Schema of the arguments object, without titles and, where possible, references.

        Raises:
            ToolDefinitionError: a parameter whose type JSON cannot express.
        """
        generated = self._adapter.json_schema()
        definitions = generated.pop("$defs", {})
        recursive = _recursive(definitions)
        inline = {name: part for name, part in definitions.items() if name not in recursive}
        properties = _tidy(generated, inline).get("properties", {})
        for name, parameter in self.parameters.items():
            if parameter.description:
                properties[name]["description"] = parameter.description
            if not parameter.required:
                properties[name] |= _default(parameter.default)
        schema: JsonSchema = {"type": "object", "properties": properties}
        required = [name for name, parameter in self.parameters.items() if parameter.required]
        if required:
            schema["required"] = required
        if recursive:
            schema["$defs"] = {name: _tidy(definitions[name], inline) for name in sorted(recursive)}
        return schema | {"additionalProperties": False}

    def check(self, arguments: str) -> dict[str, Any]:
        """Parse, check and coerce the arguments of one call; what was left out is left to the function.

        Args:
            arguments: The JSON text of an object, as the model sent it. `{"_invalid": "raw text"}` is
                how `brain.py` hands on what was not an object.

        Raises:
            ArgumentsError: the arguments do not fit.
        """
        from pydantic import ValidationError  # heavy; needed when a tool runs, not when the program starts

        try:
            given = json.loads(arguments) if arguments.strip() else {}
            if "\\u" in arguments:  # an escape can hide half a surrogate pair, which no tool need expect
                given = json.loads(clean_text(json.dumps(given, ensure_ascii=False)))
        except (ValueError, RecursionError):
            given = {"_invalid": arguments}
        if not isinstance(given, dict):
            given = {"_invalid": arguments}
        if given.keys() == {"_invalid"} and "_invalid" not in self.parameters:
            raise ArgumentsError(
                f"the arguments are not a JSON object: {_shown(given['_invalid'])}.\n{self.usage}"
            )
        try:
            checked: dict[str, Any] = self._adapter.validate_python(given)
        except ValidationError as error:
            raise ArgumentsError(f"{_problems(error.errors(), given)}.\n{self.usage}") from error
        return checked

    @property
    def usage(self) -> str:
        """One line that says which arguments there are."""
        if not self.parameters:
            return f"{self.name} takes no arguments; send {{}}."
        parts = []
        for name, parameter in self.parameters.items():
            optional = "" if parameter.required else ", optional"
            parts.append(f"{name} ({_kind(self.schema['properties'][name])}{optional})")
        return f"Arguments of {self.name}: {_clip(', '.join(parts), 600)}."

    @cached_property
    def _adapter(self) -> Any:
        from pydantic import ConfigDict, TypeAdapter
        from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

        # A TypedDict rather than a model: a parameter may have any name, and one left out stays out,
        # so that the function's own default applies.
        fields = {
            name: parameter.annotation if parameter.required else NotRequired[parameter.annotation]
            for name, parameter in self.parameters.items()
        }
        make: Any = TypedDict  # mypy accepts only literal fields
        arguments = make("Arguments", fields)
        arguments.__pydantic_config__ = ConfigDict(
            extra="forbid", allow_inf_nan=False, coerce_numbers_to_str=True
        )
        try:
            adapter: TypeAdapter[Any] = TypeAdapter(arguments)
            adapter.json_schema()
        except Exception as error:
            raise ToolDefinitionError(self._unsuitable()) from error
        return adapter

    def _unsuitable(self) -> str:
        from pydantic import TypeAdapter

        for name, parameter in self.parameters.items():
            try:
                TypeAdapter(parameter.annotation).json_schema()
            except Exception as error:  # noqa: BLE001 - a type of anybody's can fail in any way
                reason = str(error).strip().splitlines()[0]
                return (
                    f"the type of '{name}' in {self.name} cannot be sent as JSON: use str, int, float, bool, "
                    f"list, dict, Literal, an enum, a dataclass or a pydantic model ({reason})."
                )
        return f"the parameters of {self.name} cannot be described in JSON."


def read_signature(function: Callable[..., Any], name: str = "") -> Signature:
    """Read what a function says about itself, without importing anything heavy.

    Args:
        function: A plain function with types and a docstring; an `Args:` section in Google's style,
            or `Annotated[..., "text"]`, describes its parameters.
        name: The tool's name where it is not the function's.

    Raises:
        ToolDefinitionError: something is missing; the sentence says what to add.
    """
    if not callable(function) or inspect.isclass(function) or not hasattr(function, "__name__"):
        raise ToolDefinitionError(
            f"{function!r} is not a function: a tool is a function with types and a docstring."
        )
    name = name or function.__name__
    if not NAME.fullmatch(name):
        raise ToolDefinitionError(
            f"{name!r} cannot be the name of a tool: use up to 64 of A-Z a-z 0-9 _ -, "
            'or give one with @tool(name="...").'
        )
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise ToolDefinitionError(
            f"{name} is an async function: make it a plain one that calls asyncio.run(...) inside."
        )
    description, described = _read_docstring(inspect.getdoc(function) or "")
    if not description:
        raise ToolDefinitionError(
            f"{name} has no docstring: say in one sentence what it does and when to use it."
        )
    if len(description) > MAX_DESCRIPTION:
        raise ToolDefinitionError(
            f"the description of {name} has {len(description):,} characters: "
            f"shorten its docstring to {MAX_DESCRIPTION:,} (the Args section does not count)."
        )
    return Signature(name, description, _read_parameters(function, name, described))


def _read_parameters(
    function: Callable[..., Any], name: str, described: Mapping[str, str]
) -> dict[str, Parameter]:
    try:
        hints = get_type_hints(function, include_extras=True)
    except Exception as error:  # an annotation is an expression: it can fail in any way
        raise ToolDefinitionError(f"the types of {name} cannot be read: {error}.") from error
    parameters = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ToolDefinitionError(
                f"'{parameter.name}' of {name} has no name that a model could give: "
                "replace *args, **kwargs and positional-only parameters by named ones."
            )
        if parameter.name not in hints:
            raise ToolDefinitionError(
                f"'{parameter.name}' of {name} has no type: "
                f"write {parameter.name}: str, or int, float, bool, list[str]..."
            )
        annotation = hints[parameter.name]
        text = described.get(parameter.name, "")
        if get_origin(annotation) is Annotated:
            text = next((note for note in get_args(annotation)[1:] if isinstance(note, str)), text)
        parameters[parameter.name] = Parameter(annotation, text, parameter.default)
    return parameters


def _read_docstring(docstring: str) -> tuple[str, dict[str, str]]:
    """Split a docstring in Google's style: what stands before its sections, and the entries under Args."""
    description: list[str] = []
    entries: dict[str, str] = {}
    section, indent, current = "", 0, ""
    for line in docstring.splitlines():
        heading = _SECTION.match(line)
        if heading:
            section, indent = heading[1], 0
        elif not section:
            description.append(line)
        elif section in ("Args", "Arguments", "Parameters") and line.strip():
            depth = len(line) - len(line.lstrip())
            indent = indent or depth
            entry = _ENTRY.match(line.strip()) if depth == indent else None
            if entry:
                current = entry[1]
                entries[current] = entry[2]
            elif current:
                entries[current] = f"{entries[current]} {line.strip()}".strip()
    return "\n".join(description).strip(), entries


def _recursive(definitions: Mapping[str, Any]) -> set[str]:
    """Names of the definitions that contain themselves, directly or through others."""
    reaches = {name: set(_REFERENCE.findall(json.dumps(part))) for name, part in definitions.items()}
    for _ in reaches:  # the longest way round has as many steps as there are definitions
        reaches = {name: names.union(*(reaches[other] for other in names)) for name, names in reaches.items()}
    return {name for name, names in reaches.items() if name in names}


def _tidy(schema: Any, inline: Mapping[str, Any]) -> Any:
    """Copy a schema without titles, and with what is meant in place of each reference to an `inline` name."""
    if not isinstance(schema, dict):
        return schema  # `additionalProperties: false` is a schema too
    tidy: JsonSchema = {}
    for key, value in schema.items():
        if key in ("title", "discriminator"):  # a discriminator only repeats what its union says
            continue
        if key == "$ref" and value.removeprefix("#/$defs/") in inline:
            tidy |= _tidy(inline[value.removeprefix("#/$defs/")], inline)
        elif key in _SCHEMA_MAPS:
            tidy[key] = {name: _tidy(part, inline) for name, part in value.items()}
        elif key in _SCHEMA_LISTS:
            tidy[key] = [_tidy(part, inline) for part in value]
        elif key in _SCHEMAS:
            tidy[key] = _tidy(value, inline)
        else:
            tidy[key] = value
    return tidy


def _default(value: Any) -> JsonSchema:
    from pydantic_core import to_jsonable_python

    try:
        plain = to_jsonable_python(value)
        json.dumps(plain, allow_nan=False)
    except ValueError:
        return {}  # still optional; only the schema cannot say what it is when left out
    return {"default": plain}


def _kind(schema: JsonSchema) -> str:
    """Say in a few words what a schema allows."""
    if "enum" in schema:
        return " | ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False)
    if "anyOf" in schema:
        return " or ".join(_kind(part) for part in schema["anyOf"])
    if "$ref" in schema:
        return "object"
    return str(schema.get("format") or schema.get("type") or "anything")


def _problems(errors: Sequence[Mapping[str, Any]], given: Mapping[str, Any]) -> str:
    """Put pydantic's list of errors into one line: each argument once, the first three of them."""
    problems: dict[str, list[str]] = {}
    for error in errors:
        missing = error["type"] == "missing"
        path = _path(error["loc"], given, missing=missing)
        text = str(error["msg"]).replace("Input should", "should")
        if missing:
            text = "is missing"
        elif error["type"] == "extra_forbidden":
            text = "is not an argument"
        else:
            text += f" (got {_shown(error['input'])})"
        problems.setdefault(path, []).append(text)
    # The branches of a union fail one by one: "'x' should be an integer, or should be a list".
    lines = [f"'{path}' {_clip(', or '.join(texts), 400)}" for path, texts in problems.items()]
    more = f"; and {len(lines) - 3} more" if len(lines) > 3 else ""
    return "; ".join(lines[:3]) + more


def _path(location: Sequence[str | int], given: Any, *, missing: bool) -> str:
    """Name the place in the arguments, as `people[0].age`.

    pydantic's location also names the branches of a union, which the model has never seen: what does
    not lead into the given arguments is left out.
    """
    path = ""
    for position, part in enumerate(location):
        if isinstance(given, dict) and part in given:
            given = given[part]
            path += f".{part}"
        elif isinstance(given, list) and isinstance(part, int) and part < len(given):
            given = given[part]
            path += f"[{part}]"
        elif missing and position == len(location) - 1:
            path += f".{part}"
    return _clip(clean_text(path.removeprefix(".")), SHOWN)


def _shown(value: Any) -> str:
    """Quote the beginning of a value that came from the model."""
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)
    except (ValueError, RecursionError):
        text = f"a {type(value).__name__}"
    return (
        json.dumps(_clip(text, SHOWN), ensure_ascii=False) if isinstance(value, str) else _clip(text, SHOWN)
    )


def _clip(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
