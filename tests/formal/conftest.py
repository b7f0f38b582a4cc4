"""Report of the proofs at the end of a run."""

from tests.formal import harness


def pytest_terminal_summary(terminalreporter) -> None:
    if not harness.finished:
        return
    terminalreporter.section("formal proofs")
    width = max(len(proof.name) for proof in harness.finished)
    for p in harness.finished:
        terminalreporter.write_line(
            f"{p.name:{width}}  {p.mode:5}  depth {p.depth:3}  "
            f"{p.properties:2} properties  {p.seconds:6.1f} s"
        )
