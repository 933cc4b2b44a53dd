"""A page taken apart, and names that nobody should have."""

from html.parser import HTMLParser

HOSTILE = '<script>window.hostile=1</script>&amp;<img src=x onerror="window.hostile=2">\u2028</pre>'
EMPTY = {"meta", "br", "path", "img", "input"}  # elements that nothing is in


class Page(HTMLParser):
    """The elements of a page, and the text inside each, by tag and by class."""

    def __init__(self, text):
        super().__init__()
        self.open, self.found, self.tags, self.attributes, self.classes = [], {}, [], [], {}
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in EMPTY:
            names = [tag, *(f".{name}" for name in (dict(attrs).get("class") or "").split())]
            for name in names:
                self.found.setdefault(name, []).append("")
            self.open.append((tag, [(name, len(self.found[name]) - 1) for name in names]))

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        if tag not in EMPTY:
            assert self.open.pop()[0] == tag, tag

    def handle_data(self, data):
        for _, places in self.open:
            for name, index in places:
                self.found[name][index] += data
