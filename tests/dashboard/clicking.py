"""A window that counts what an operator does."""

from __future__ import annotations

from dataclasses import dataclass

from playwright.sync_api import Locator, Page, expect


@dataclass
class Operator:
    """Clicks, and counts the clicks; typing and choosing from a list is not counted."""

    page: Page
    clicks: int = 0

    def start(self, address: str = "/") -> None:
        """Open a page, as a bookmark does."""
        answer = self.page.goto(address)
        assert answer is not None
        assert answer.status == 200, self.page.locator("main").inner_text()
        expect(self.page.locator("#live")).to_have_text("live")

    def click(self, name: str, *, within: Locator | None = None, role: str = "button") -> None:
        """Click what is called so."""
        self.clicks += 1
        place = within if within is not None else self.page
        place.get_by_role(role, name=name, exact=False).first.click()  # type: ignore[arg-type]

    def follow(self, name: str, *, within: Locator | None = None) -> None:
        """Follow a link."""
        self.click(name, within=within, role="link")

    @property
    def dialog(self) -> Locator:
        """The dialog that is open."""
        return self.page.locator("#dialog")

    def told(self, text: str) -> None:
        """Wait until the page says so."""
        expect(self.page.locator("#told")).to_contain_text(text)
