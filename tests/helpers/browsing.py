"""A page in a real browser: at a size, in a colour scheme, with what it said and fetched."""

import json

DESK = (1280, 900)

# The smallest contrast of any text with what is behind it, and that text.
CONTRAST = """
const luminance = ([r, g, b]) => {
  const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
};
const parsed = (text) => {
  const numbers = text.match(/-?[\\d.]+(e-?\\d+)?/g).map(Number);
  const scale = text.startsWith("rgb") ? 255 : 1;
  return { rgb: numbers.slice(0, 3).map((n) => n / scale), alpha: numbers[3] ?? 1 };
};
const behind = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const { rgb, alpha } = parsed(getComputedStyle(at).backgroundColor);
    if (alpha === 1) return rgb;
  }
  return [1, 1, 1];
};
let worst = [99, ""];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
  const levels = [parsed(getComputedStyle(element).color).rgb, behind(element)].map(luminance);
  const ratio = (Math.max(...levels) + 0.05) / (Math.min(...levels) + 0.05);
  if (ratio < worst[0]) worst = [ratio, walker.currentNode.data];
}
return worst;
"""


class Tab:
    """A page in the browser, at a size and in a colour scheme."""

    def __init__(self, driver, path):
        self.driver, self.path = driver, path

    def open(self, size=DESK, scheme="light", media=""):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.command("Emulation.setEmulatedMedia", media=media, features=features)
        width, height = size
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        for log in ("browser", "performance"):
            self.driver.get_log(log)
        self.driver.get(self.path.as_uri())
        return self

    def command(self, name, **arguments):
        return self.driver.execute_cdp_cmd(name, arguments)

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def one(self, selector):
        return self.driver.find_element("css selector", selector)

    def all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def text(self, selector):
        return self.one(selector).text

    def point(self, selector, x, y):
        """Move the pointer to a place in an element, given in shares of its size."""
        from selenium.webdriver import ActionChains

        element = self.one(selector)
        self.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
        size = element.size
        actions = ActionChains(self.driver, duration=0)
        dx, dy = (x - 0.5) * size["width"], (y - 0.5) * size["height"]
        actions.move_to_element_with_offset(element, round(dx), round(dy)).perform()
        return actions

    def fits(self):
        """Whether nothing sticks out to the right."""
        return self.run(
            "const e = document.scrollingElement; return e.scrollWidth <= e.clientWidth"
        )

    def complaints(self):
        """What the console said, and what was fetched beside the page itself."""
        said = [entry["message"] for entry in self.driver.get_log("browser")]
        fetched = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                fetched.append(message["params"]["request"]["url"])
        return said, [url for url in fetched if url != self.path.as_uri() and url[:5] != "data:"]
