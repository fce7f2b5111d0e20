"""Tests of habits.py: every habit is found in a planted sentence, and plain sentences pass.

    python3 scripts/test_habits.py
"""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import habits

# An odd sentence for each habit, and the same in plain words.
PLANTED = {
    "a question word as the subject": ("What a peer is at.", "Status of a peer."),
    "'of' and a noun in front of the subject": ("Of a pair, one peer dials.", "One peer of a pair dials."),
    "'where' for a condition": ("Returns None where there is no file.", "Returns None if there is no file."),
    "'so many' for a number": ("It learns from so many peers.", "It learns from this number of peers."),
    "'is no', 'is none', 'nobody'": ("A sketch that is no sketch of rows.", "A sketch that is not made of rows."),
    "a thing that says, tells or knows": ("The session file says the classes.", "The session file names the classes."),
    "'beside'": ("The model beside one of pooled rows.", "The model next to one of pooled rows."),
    "an old conjunction": ("It waits, for it has no rows.", "It waits, because it has no rows."),
    "'of which', 'of whom'": ("Ten peers, of which three compute.", "Ten peers. Three of them compute."),
    "an old verb": ("The session goes on without it.", "The session continues without it."),
}


def names(sentence):
    return [habit.partition(" (instead")[0] for habit in habits.habits_of(sentence)]


def odd(path, text):
    return habits.findings(path, text)[1]


class Sentences(unittest.TestCase):
    def test_every_habit_is_found_and_its_plain_form_is_not(self):
        self.assertEqual([name for name, _, _ in habits.HABITS], list(PLANTED))
        for name, (planted, plain) in PLANTED.items():
            self.assertEqual(names(planted), [name])
            self.assertEqual(names(plain), [])

    def test_a_sentence_of_fifty_words_is_found(self):
        self.assertEqual(names("word " * 50), ["50 words"])
        self.assertEqual(names("word " * 45), [])

    def test_ordinary_words_pass(self):
        for sentence in (
            "There is no model yet.",
            "The key is no longer needed.",
            "What does a peer learn?",
            "This line stands for a missing value.",
            "The address where the relay listens.",
            "Needs bytes for the two vectors.",
            "It works regardless of which peers crash.",
        ):
            self.assertEqual(names(sentence), [])

    def test_sentences_come_from_text_comments_and_strings_but_not_from_code(self):
        planted = "It is there beside the file."
        for path, text in {
            "a.md": f"Plain words here.\nSome more. {planted}",
            "b.md": f"| cell here | {planted} |",
            "a.rs": f"fn f() {{}}\n/// {planted}",
            "b.rs": 'let text = "It is there \\\n    beside the file.";',
            "c.rs": 'let text = r#"It is there beside "the" file."#;',
            "a.py": f'"""Plain words here.\n\n{planted}\n"""',
            "b.py": f"x = 1  # {planted}",
            "a.toml": f"# {planted}",
        }.items():
            self.assertEqual(len(odd(path, text)), 1, path)
        for path, text in {
            "a.md": f"```text\n{planted}\n```",
            "b.md": "It calls `a file beside the file` here.",
            "a.rs": "fn beside(the: File) { beside(the, file) }",
            "a.py": "beside = the(file, beside)",
        }.items():
            self.assertEqual(odd(path, text), [], path)

    def test_only_sentences_with_added_lines_count(self):
        text = "One is beside two.\n\nThree is\nbeside four.\n"
        count, found = habits.findings("a.md", text, added={4})
        self.assertEqual((count, len(found)), (1, 1))
        self.assertTrue(found[0].startswith("a.md:3: Three is beside four."))

    def test_an_allowed_sentence_needs_a_reason(self):
        allowed = habits.allowed_sentences("# comment\nIt is beside me. | a quote\n")
        self.assertEqual(habits.findings("a.md", "It is beside me.", None, allowed), (1, []))
        with self.assertRaises(SystemExit):
            habits.allowed_sentences("It is beside me.")


class Changes(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="flyswarm-habits-"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "scripts").mkdir()
        for name in ("habits.py", "habits-allowed.txt"):
            shutil.copy(Path(__file__).with_name(name), self.folder / "scripts")

    def git(self, *words):
        identity = ["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", self.folder, *identity, *words], check=True, capture_output=True)

    def commit(self, text):
        (self.folder / "a.md").write_text(text)
        self.git("add", ".")
        self.git("commit", "-m", "change")

    def check(self):
        script = [sys.executable, self.folder / "scripts" / "habits.py"]
        done = subprocess.run(script, capture_output=True, text=True)
        return done.returncode, done.stdout

    def test_a_change_with_an_odd_sentence_fails_and_old_sentences_do_not_count(self):
        self.git("init", "-b", "main")
        self.commit("It is beside me.\n")
        code, text = self.check()
        self.assertEqual(code, 0)
        self.assertIn("no history", text)
        self.commit("It is beside me.\n\nThis is plain.\n")
        code, text = self.check()
        self.assertEqual(code, 0)
        self.assertIn("0 of 1 added sentences", text)
        self.commit("It is beside me.\n\nThis is plain.\n\nIt is no plain one.\n")
        code, text = self.check()
        self.assertEqual(code, 1)
        self.assertIn("a.md:5: It is no plain one.", text)
        # The commits on top of origin/main count, and so does what is not committed.
        self.git("update-ref", "refs/remotes/origin/main", "HEAD~2")
        self.commit("It is beside me.\n\nThis is plain.\n\nIt is no plain one.\n\nThis one is plain.\n")
        self.assertEqual(self.check()[0], 1)
        self.commit("It is beside me.\n\nThis is plain.\n")
        self.assertEqual(self.check()[0], 0)
        (self.folder / "b.rs").write_text("// Whose rows they are.\n")
        code, text = self.check()
        self.assertEqual(code, 1)
        self.assertIn("b.rs:1: Whose rows they are.", text)

    def test_without_git_nothing_is_checked(self):
        code, text = self.check()
        self.assertEqual(code, 0)
        self.assertIn("nothing checked", text)


if __name__ == "__main__":
    unittest.main()
