"""What happens again and again is reported once."""

from __future__ import annotations

from stormwright.service.on_change import OnChange


def test_message_is_logged_again_only_after_a_change():
    lines: list[str] = []
    report = OnChange(lines.append)
    for text in (
        "Nimbus: refused",
        "Nimbus: refused",
        "disk full, 3 waiting",
        "disk full, 4.5 waiting",
        "Nimbus: refused",
    ):
        report(text)
    assert lines == ["Nimbus: refused", "disk full, 3 waiting", "Nimbus: refused"]
    report.over()
    assert report("Nimbus: refused")
    assert not report("Nimbus: refused")
