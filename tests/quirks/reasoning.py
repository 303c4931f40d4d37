"""Where reasoning is put."""

from __future__ import annotations

from server import calls, delta, piece

from quirks.row import OK, row, whole

THOUGHT = "<think>Ada is\na name.</think>\n\n" + OK
REASONING = [
    row(
        "reasoning_content before", whole(delta(reasoning_content="Hm."), delta(OK)), reasoning="Hm."
    ),  # DeepSeek
    row(
        "reasoning before", whole(delta("", reasoning="Hm."), delta(OK)), reasoning="Hm."
    ),  # OpenRouter, Ollama
    row("reasoning beside", whole(delta(OK, reasoning_content="Hm.")), reasoning="Hm."),
    row(
        "both names for it",
        whole(delta(reasoning="Hm.", reasoning_content="Hm."), delta(OK)),
        reasoning="Hm.",
    ),  # vLLM
    row("reasoning null", whole(delta(OK, reasoning_content=None, reasoning=None))),
    row("reasoning after", whole(delta(OK), delta(reasoning="Hm.")), reasoning="Hm."),
    row(
        "reasoning instead",
        whole(delta(content=None, reasoning_content="Hm.")),
        kind="empty",
        says="no answer",
    ),
    row(
        "reasoning, then a call",
        whole(delta(reasoning="Hm."), calls(piece("{}", id="c1", name="look"))),
        text="",
        reasoning="Hm.",
        calls=[("look", {})],
    ),
    row(
        "thinking parts",
        whole(delta([{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]), delta(OK)),
        reasoning="Hm.",
    ),  # type: ignore[arg-type]  # Mistral
    row("think tags", whole(delta(THOUGHT)), reasoning="Ada is\na name."),
    row("think tags in single characters", whole(*map(delta, THOUGHT)), reasoning="Ada is\na name."),
    row(
        "think tags after a line break", whole(delta("\n"), delta("<think>Hm.</think>" + OK)), reasoning="Hm."
    ),
    row(
        "two blocks",
        whole(delta("<think>One.</think>\n<think>Two.</think>\n"), delta(OK)),
        reasoning="One.Two.",
    ),
    row(
        "an empty block", whole(delta("<think>\n\n</think>\n\n" + OK)), reasoning="\n\n"
    ),  # Qwen with thinking off
    row(
        "a block never closed",
        whole(delta("<think>Hm, "), delta("let me see")),
        kind="empty",
        says="no answer",
    ),
    row(
        "a block, then a call",
        whole(delta("<think>Hm.</think>\n"), calls(piece("{}", id="c1", name="look"))),
        text="",
        reasoning="Hm.",
        calls=[("look", {})],
    ),
    row(
        "a tag in code later on",
        whole(delta("Write `<think>`"), delta(" and </think>.")),
        text="Write `<think>` and </think>.",
    ),
    row("what only looks like a tag", whole(delta("<thi"), delta("rd>")), text="<third>"),
    row("the beginning of a tag at the end", whole(delta("<thin")), text="<thin"),
    row("a tag of another kind", whole(delta("<b>bold</b>")), text="<b>bold</b>"),
    row(
        "less-than inside the block",
        whole(delta("<think>1 < 2 </th"), delta("en> yes</think>" + OK)),
        reasoning="1 < 2 </then> yes",
    ),
]
