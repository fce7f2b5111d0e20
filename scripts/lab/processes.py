"""Runs commands, and programs whose output lines are read."""

import signal
import subprocess
import threading
import time


class Failed(Exception):
    pass


def sh(*words, check=True):
    done = subprocess.run(words, capture_output=True, text=True)
    if check and done.returncode != 0:
        raise Failed(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.returncode == 0


def quiet(*words):
    return sh(*words, check=False)


class Process:
    def __init__(self, host, process, words):
        self.host, self.process, self.words = host, process, words
        self.lines, self.errors, self.new = [], [], threading.Condition()
        self.readers = [
            threading.Thread(target=self.read, args=(process.stdout, self.lines), daemon=True),
            threading.Thread(target=self.read, args=(process.stderr, self.errors), daemon=True),
        ]
        for reader in self.readers:
            reader.start()

    def read(self, pipe, lines):
        for line in pipe:
            with self.new:
                lines.append(line.rstrip("\n"))
                self.new.notify_all()
        with self.new:
            self.new.notify_all()

    def story(self):
        return "\n".join(f"    {self.host.name}: {line}" for line in self.lines + self.errors)

    def wait_line(self, what, wanted, seconds=60):
        until = time.monotonic() + seconds
        with self.new:
            while True:
                for line in self.lines + self.errors:
                    if wanted(line):
                        return line
                left = until - time.monotonic()
                if left <= 0 or (self.process.poll() is not None and not any(r.is_alive() for r in self.readers)):
                    raise Failed(f"{self.host.name}: {self.words}: no line with {what}\n{self.story()}")
                self.new.wait(min(left, 0.5))

    def end(self, code=0, seconds=60):
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.host.name}: {self.words}: not over after {seconds} s\n{self.story()}") from None
        for reader in self.readers:
            reader.join(5)
        if code is not None and self.process.returncode != code:
            raise Failed(f"{self.host.name}: {self.words}: ended with {self.process.returncode}, not {code}\n{self.story()}")
        return self.lines + self.errors

    def stop(self, number=signal.SIGTERM):
        # The process of `ip netns exec` becomes the program.
        self.process.send_signal(number)
