"""What happens again and again is told once."""

from __future__ import annotations

from stormwright.service.on_change import OnChange


def test_a_text_is_said_once_and_again_when_it_is_another():
    said: list[str] = []
    tell = OnChange(said.append)
    for text in (
        "Nimbus: refused",
        "Nimbus: refused",
        "disk full, 3 waiting",
        "disk full, 4.5 waiting",
        "Nimbus: refused",
    ):
        tell(text)
    assert said == ["Nimbus: refused", "disk full, 3 waiting", "Nimbus: refused"]
    tell.over()
    assert tell("Nimbus: refused")
    assert not tell("Nimbus: refused")
