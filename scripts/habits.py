#!/usr/bin/env python3
"""Finds odd habits of English in the sentences that a change adds, and fails if there are any.

    scripts/habits.py [--base REVISION]     sentences with lines that REVISION does not have
    scripts/habits.py --all [PATH ...]      all sentences, or those of some files; the exit code is 0

Without --base, the base is the merge base with origin/main. If HEAD has no commits on top of it, the base is
the parent of HEAD. Changes that are not committed count as added. Without history nothing is checked.

Sentences come from Markdown, comments, docstrings and string literals; code is not read. Each finding has the
file and line, the habit, and how to write instead. habits-allowed.txt lists sentences that are right as they
are, such as quotes, each with a reason.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ALLOWED = Path(__file__).with_name("habits-allowed.txt")
# These files quote odd sentences on purpose.
SKIPPED = {"scripts/habits.py", "scripts/test_habits.py", "scripts/habits-allowed.txt"}
LONGEST = 45

THINGS = "answer|column|error|file|line|message|model|page|report|row|session|specification|sum|sums|table|total|view"
# Name of the habit, how to write instead, pattern.
HABITS = [
    (name, instead, re.compile(pattern))
    for name, instead, pattern in [
        (
            "a question word as the subject",
            "name the thing: the peer, the number of rows",
            r"^(?:What|Who|Whom|Whose|Whoever|Whatever|Whether|How (?:many|much|long|far|often))\s+(?!if\b)[a-z`X].*[^?]$",
        ),
        (
            "'of' and a noun in front of the subject",
            "begin with the subject",
            r"^Of (?:a|an|the|each|every|this|those|all|some) [^,]*, ",
        ),
        (
            "'where' for a condition",
            "if, when, unless",
            r"\b(?:none|None|nothing|nobody|empty|absent|X|given|only|out|it),? where (?:a|an|it|its|no|none|nobody|nothing|that|the|there|they|this)\b"
            r"|^Where (?:a|an|it|its|no|none|nobody|nothing|the|there|they)\b",
        ),
        ("'so many' for a number", "the number, N, this number of", r"\b[Ss]o (?:many|much|long)\b(?! (?:that|as|for)\b)|\bas many as\b.*\bsays?\b"),
        (
            "'is no', 'is none', 'nobody'",
            "is not a, does not have, no peer",
            r"(?<![Tt]here )\b(?:is|are|was|were|makes?) (?:none(?! of the)|"
            r"no (?!longer|more|less|fewer|better|worse|larger|smaller|different)[a-zX])|\b[Nn]obody\b",
        ),
        (
            "a thing that says, tells or knows",
            "shows, has, names, contains; a person or program reads it",
            rf"\b(?:{THINGS}) (?:say|says|tell|tells|know|knows)\b|\b(?:is|are|was|were|be|being) told\b",
        ),
        ("'beside'", "next to, in addition to, and, with", r"\b[Bb]eside\b"),
        (
            "an old conjunction",
            "because, except, otherwise, regardless of",
            r", for (?:it|they|he|else|nobody|none|nothing|there|what|who)\b|\b(?:but for|for else|or else it)\b|\bsave (?:that|for)\b"
            r"|\b(?:anyhow|hereby|herein|hitherto|lest|thereby|therein|thereof|thereupon|wherein|whereby|whereof|whereupon)\b"
            r"|\bwhatever (?:the|it|its|they|their)\b",
        ),
        (
            "'of which', 'of whom'",
            "two sentences, or whose, that",
            r"(?<!regardless )\b(?:of|by|to|under|over) (?:which|whom)\b",
        ),
        (
            "an old verb",
            "continues, instead of, is at, is valid",
            r"\b(?:goes on|takes (?:its|the|their) place|in (?:the )?place of|stands (?!for|out|by)|(?:may|shall|must|can) stand)\b",
        ),
    ]
]

RUST = re.compile(
    r"""(?P<comment>//[/!]?[^\n]*)|/\*.*?\*/|b?r(?P<fence>\#*)"(?P<raw>.*?)"(?P=fence)|b?"(?P<text>(?:\\.|[^"\\])*)"|'(?:\\.[^']*|[^'\\\n])'""",
    re.DOTALL,
)
PYTHON = re.compile(
    r'''(?P<comment>\#[^\n]*)|(?P<quote>"""|\'\'\'|"|')(?P<text>(?:\\.|(?!(?P=quote))[^\\])*)(?P=quote)''', re.DOTALL
)
SHELL = re.compile(r"(?m)(?:^|(?<=\s))(?P<comment>#[^\n]*)")


def kind_of(path):
    """Returns how to read a file, or None if it has no sentences."""
    suffix = Path(path).suffix
    if suffix in (".md", ".rs", ".js", ".py", ".pyi", ".toml", ".sh", ".html"):
        return suffix
    try:
        first = (ROOT / path).open(encoding="utf-8").readline()
    except (OSError, UnicodeDecodeError):
        return None
    return None if suffix or not first.startswith("#!") else ".py" if "python" in first else ".sh"


def blocks_of_markdown(text):
    """Yields lists of (line, text): paragraphs, items of lists, cells of tables. Fenced code is left out."""
    block, fenced = [], False
    for number, line in enumerate(text.splitlines(), 1):
        plain = line.strip()
        fence = plain.startswith("```")
        fenced ^= fence
        if fence or fenced or not plain or line.startswith("    ") and not block:
            yield block
            block = []
        elif plain.startswith("|"):
            yield from ([(number, cell)] for cell in plain.strip("|").split("|"))
        elif re.match(r"#+ |[-*] |\d+\. ", plain):
            yield block
            block = [(number, re.sub(r"^(?:#+|[-*]|\d+\.) +", "", plain))]
        else:
            block.append((number, plain))
    yield block


def blocks_of_code(text, pattern):
    """Yields lists of (line, text): comments on lines next to each other, and string literals."""
    block, last = [], -1
    number, at = 1, 0
    for match in pattern.finditer(text):
        number += text.count("\n", at, match.start())
        at = match.start()
        found = match.groupdict()
        if comment := found.get("comment"):
            content = re.sub(r"^(?://[/!]?|#!?)\s?", "", comment).strip()
            if number != last + 1 or not content or re.match(r"#+ |[-*] |\d+\. |\|", content):
                yield block
                block = []
            if content:
                block.append((number, content.lstrip("#-* ")))
            last = number
            continue
        string = found.get("raw") or found.get("text") or ""
        lines = [(number + i, line) for i, line in enumerate(re.sub(r"\\n", " ", string).split("\n"))]
        part = []
        for line in lines:
            if not line[1].strip():
                yield part
                part = []
            else:
                part.append((line[0], line[1].strip().removesuffix("\\").strip()))
        yield part
    yield block


def blocks(path, text):
    kind = kind_of(path)
    if kind == ".md":
        return blocks_of_markdown(text)
    if kind == ".html":
        return ([(number, re.sub(r"<[^>]*>", " ", line).strip())] for number, line in enumerate(text.splitlines(), 1))
    patterns = {".rs": RUST, ".js": RUST, ".py": PYTHON, ".pyi": PYTHON, ".toml": SHELL, ".sh": SHELL}
    return blocks_of_code(text, patterns[kind]) if kind in patterns else ()


def sentences(path, text):
    """Yields (first line, last line, sentence). Code in a sentence is replaced by X."""
    for block in filter(None, blocks(path, text)):
        starts, whole = [], ""
        for number, part in block:
            starts.append((len(whole), number))
            whole += part + " "
        # Same length, so that positions stay right.
        whole = re.sub(r"`[^`]*`|\{[^{}]*\}|\[`|`\]", lambda code: "X" + "\0" * (len(code[0]) - 1), whole)
        begun = 0
        for end in [*(match.end() for match in re.finditer(r"[.:;!?][)\"']*\s+", whole)), len(whole)]:
            sentence = whole[begun:end].replace("\0", "").strip(' "')
            first = max(number for start, number in starts if start <= begun)
            last = max(number for start, number in starts if start < max(end, 1))
            begun = end
            if len(sentence.split()) > 2 and re.search(r"[a-z]{2}", sentence):
                yield first, last, sentence


def habits_of(sentence):
    """Returns the habits of a sentence, each with what to write instead."""
    found = [f"{name} (instead: {instead})" for name, instead, pattern in HABITS if pattern.search(sentence)]
    words = len(re.findall(r"[A-Za-z]{2,}", sentence))
    # Programs and session files in strings have signs that sentences do not have.
    if words > LONGEST and " = " not in sentence:
        found.append(f"{words} words (instead: at most 20)")
    return found


def git(*words):
    answer = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, errors="replace")
    return answer.stdout if answer.returncode == 0 else None


def default_base():
    """Returns the base, or None if there is no history."""
    head = git("rev-parse", "HEAD")
    common = git("merge-base", "HEAD", "origin/main")
    if head is None or common not in (None, head):
        return common and common.strip()
    parent = git("rev-parse", "--verify", "--quiet", "HEAD~1")
    return parent and parent.strip()


def added_lines(diff):
    """Returns the numbers of the added lines by path, from a diff without context."""
    lines, path = {}, None
    for line in diff.splitlines():
        if line.startswith("+++ "):
            path = line[6:] if line.startswith("+++ b/") else None
        elif path and (hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line)):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            lines.setdefault(path, set()).update(range(first, first + count))
    return lines


def allowed_sentences(text):
    """Returns the allowed sentences. A line has a sentence, " | " and the reason."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    for line in lines:
        if not line.partition(" | ")[2].strip():
            sys.exit(f"{ALLOWED.name}: {line}: no reason after ' | '")
    return {line.partition(" | ")[0].strip() for line in lines}


def findings(path, text, added=None, allowed=frozenset()):
    """Returns the number of sentences with added lines (None: all lines), and a line for each odd sentence."""
    count, found = 0, []
    for first, last, sentence in sentences(path, text):
        if added is not None and not any(number in added for number in range(first, last + 1)):
            continue
        count += 1
        if sentence not in allowed and (habits := habits_of(sentence)):
            found.append(f"{path}:{first}: {sentence}\n    {'; '.join(habits)}")
    return count, found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", metavar="REVISION")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("paths", nargs="*", metavar="PATH")
    arguments = parser.parse_args()
    allowed = allowed_sentences(ALLOWED.read_text(encoding="utf-8"))
    if arguments.all:
        wanted = dict.fromkeys(arguments.paths or (git("ls-files") or "").splitlines())
    else:
        base = arguments.base or default_base()
        if base is None:
            print("nothing checked: this copy has no history to compare with")
            return 0
        diff = git("diff", "--unified=0", "--no-color", "--no-ext-diff", "--src-prefix=a/", "--dst-prefix=b/", base)
        if diff is None:
            print(f"{base}: git does not know this revision", file=sys.stderr)
            return 2
        wanted = added_lines(diff)
        wanted |= dict.fromkeys((git("ls-files", "--others", "--exclude-standard") or "").splitlines())
    count, found = 0, []
    for path, lines in wanted.items():
        if path in SKIPPED or kind_of(path) is None or not (ROOT / path).is_file():
            continue
        text = (ROOT / path).read_text(encoding="utf-8", errors="replace")
        more, odd = findings(path, text, lines, allowed)
        count += more
        found += odd
    print(*found, sep="\n", end="\n" if found else "")
    if arguments.all:
        print(f"{len(found)} of {count} sentences ({100 * len(found) / max(count, 1):.1f} %) have a habit")
        return 0
    print(f"{len(found)} of {count} added sentences have a habit; base {base[:12]}")
    if found:
        print(f"rewrite them, or give a reason in scripts/{ALLOWED.name}")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
