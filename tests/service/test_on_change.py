"""What happens again and again is reported once."""

from __future__ import annotations

from stormwright.service.on_change import OnChange


def test_message_is_logged_again_only_after_a_change():
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
