#!/usr/bin/env python3
"""report_browser.py PAGE... [--screenshots FOLDER] [--address URL]: opens each page in a headless Chromium, without a network, and
checks what a reader meets: no error on the console, nothing fetched, painted within a second, every chart drawn, both
colour schemes readable, no sideways scrolling on a telephone, and all of it reachable by keyboard. The browser is driven
by its DevTools protocol over a pipe. Of the page at URL, which `report --serve` shows, what was chosen must outlive a
reload. 77: there is no browser here."""
import argparse
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PAINT_MS = 5000  # until the first content is there; on a quiet machine it takes 0.2 s


class Browser:
    """A headless browser and one page in it."""

    def __init__(self, program, profile):
        to_browser, self.output = os.pipe()
        self.input, from_browser = os.pipe()

        def connect():  # the browser reads descriptor 3 and writes descriptor 4
            os.dup2(to_browser, 63)
            os.dup2(from_browser, 64)
            os.dup2(63, 3)
            os.dup2(64, 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--no-first-run", "--disable-background-networking", f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=connect, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.number, self.buffer, self.events, self.session = 0, b"", [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def message(self):
        while b"\0" not in self.buffer:
            part = os.read(self.input, 1 << 20)
            if not part:
                raise RuntimeError("the browser has ended")
            self.buffer += part
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.output, json.dumps(request).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def value(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def open(self, page, scheme="light", width=1280, height=900):
        self.events.clear()
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.navigate(page.resolve().as_uri())

    def navigate(self, address):
        self.call("Page.navigate", url=address)
        end = time.monotonic() + 60
        while not self.value("document.readyState === 'complete' && location.protocol !== 'about:' && "
                             "performance.getEntriesByName('first-contentful-paint').length && (document.documentElement.dataset.drawn || !document.getElementById('data'))"):
            if time.monotonic() > end:
                raise RuntimeError("the page is not drawn after a minute")
            time.sleep(0.05)

    def press(self, key, **modifiers):
        code = {"ArrowRight": 39, "ArrowLeft": 37, "Home": 36, "End": 35, "Tab": 9, "Enter": 13, " ": 32}.get(key, ord(key[0]))
        text = {"text": "\r" if key == "Enter" else key} if len(key) == 1 or key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text, **modifiers)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def screenshot(self, file):
        height = self.value("document.documentElement.scrollHeight")
        width = self.value("innerWidth")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        time.sleep(0.3)
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(picture["data"]))

    def close(self):
        self.process.terminate()
        self.process.wait(20)


def complaints(events):
    """What a page has said on the console, thrown, or asked of a network."""
    for event in events:
        method, detail = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            yield "exception: " + json.dumps(detail["exceptionDetails"])[:500]
        elif method == "Runtime.consoleAPICalled" and detail["type"] in ("error", "warning", "assert"):
            yield "console: " + json.dumps(detail["args"])[:500]
        elif method == "Log.entryAdded" and detail["entry"]["level"] in ("error", "warning"):
            yield "log: " + detail["entry"]["text"][:500]
        elif method == "Network.requestWillBeSent" and not detail["request"]["url"].startswith(("file:", "data:", "about:", "http://127.0.0.1:")):
            yield "fetched: " + detail["request"]["url"][:200]


def luminance(colour):
    """Of "rgb(r, g, b)", as WCAG 2 defines it."""
    parts = [int(float(part)) / 255 for part in colour[colour.index("(") + 1:-1].split(",")[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(browser, selector):
    """Between the text of the first such element and what lies behind it; none: there is no such element."""
    colours = browser.value(f"""(() => {{
      let element = document.querySelector({selector!r});
      if (!element) return null;
      const text = getComputedStyle(element).color;
      let paper = 'rgba(0, 0, 0, 0)';
      while (element && paper === 'rgba(0, 0, 0, 0)') {{
        paper = getComputedStyle(element).backgroundColor; element = element.parentElement; }}
      return [text, paper]; }})()""")
    if colours is None:
        return None
    dark, light = sorted(luminance(colour) for colour in colours)
    return (light + 0.05) / (dark + 0.05)


def check_tables(browser):
    """From every chart Tab leads to its table, Enter opens it, and Tab leads into it."""
    for chart in browser.value("[...document.querySelectorAll('.chart')].map((chart) => chart.id)"):
        browser.value(f"document.getElementById('{chart}').focus()")
        browser.press("Tab")
        browser.press("Enter")
        assert browser.value(f"document.activeElement.closest('figure').contains(document.getElementById('{chart}')) && "
                             "document.activeElement.closest('details').open"), f"the table of {chart} does not open by Enter"
        browser.press("Tab")
        assert browser.value("document.activeElement.querySelectorAll('table tbody tr').length") > 0, f"Tab leads not into the table of {chart}"
        browser.value("document.activeElement.closest('details').open = false")


def check_keyboard(browser):
    charts = browser.value("document.querySelectorAll('.chart').length")
    if charts == 0:
        return
    browser.value("document.activeElement.blur()")
    for _ in range(80):
        browser.press("Tab")
        if browser.value("document.activeElement.classList.contains('chart')"):
            break
    else:
        raise AssertionError("no chart is reached by Tab")
    for _ in range(3):
        browser.press("ArrowRight")
    third = browser.value("document.getElementById('spoken').textContent")
    assert ": " in third and any(c.isdigit() for c in third), f"the keyboard reads out {third!r}"
    # of a curve that is drawn smoothed, what was measured is said
    wrong = browser.value("""(() => {
      const place = document.getElementById('chart-loss');
      place.focus();
      const data = JSON.parse(document.getElementById('data').textContent);
      const series = data.charts.find((chart) => chart.id === 'loss').series[0];
      if (series.x.length < 60) return '';
      for (let i = 0; i < 5; ++i) {
        place.dispatchEvent(new KeyboardEvent('keydown', {key: i === 0 ? 'Home' : 'ArrowRight'}));
        const [, batch, value] = document.getElementById('spoken').textContent.match(/^batch ([0-9,]+): .*? ([0-9.]+)(,|$)/);
        const position = series.x.indexOf(Number(batch.replaceAll(',', '')));
        if (position >= 0 && Number(value) !== Number(series.y[position].toPrecision(4)))
          return `batch ${batch}: ${value} is said, ${series.y[position]} was measured`;
      }
      return ''; })()""")
    assert not wrong, wrong
    browser.press("End")
    last = browser.value("document.getElementById('spoken').textContent")
    assert last != third, "End does not lead to another value"
    labels = "[...document.querySelectorAll('.chart .dygraph-axis-label-x')].map((label) => label.textContent).join()"
    whole = browser.value(labels)
    browser.press("+")
    browser.press("+")
    assert browser.value(labels) != whole, "+ does not zoom"
    browser.press("0")
    assert browser.value(labels) == whole, "0 does not show all"
    check_tables(browser)
    browser.value("document.querySelector('input[value=tokens]').focus()")
    browser.press(" ")
    assert browser.value(labels) != whole, "the axis does not change to tokens"
    browser.value("document.querySelector('input[value=batches]').click()")
    if browser.value("document.querySelectorAll('input[name=run]').length") > 1:
        legend = "document.getElementById('legend-loss').children.length"
        before = browser.value(legend)
        browser.value("document.querySelector('input[name=run]').focus()")
        browser.press(" ")
        assert browser.value(legend) < before, "a run is not hidden by Space"
        browser.press(" ")


def check_search(browser):
    """Words in the field above a table leave the rows that hold them; a name of the table of metrics draws its chart."""
    for table in browser.value("[...document.querySelectorAll('input[type=search]')].map((field) => field.dataset.table)"):
        rows = f"[...document.querySelectorAll('#{table} tbody tr')].filter((row) => !row.hidden)"
        whole = browser.value(rows + ".length")
        word = browser.value(rows + "[0].cells[0].textContent")
        browser.value(f"""(() => {{ const field = document.querySelector('input[data-table={table}]');
          field.value = {json.dumps(word)}.toUpperCase(); field.dispatchEvent(new Event('input', {{bubbles: true}})); }})()""")
        found = browser.value(rows + ".length")
        assert 0 < found < whole or whole == 1, f"{table}: {found} of {whole} rows have {word!r}"
    if browser.value("document.querySelectorAll('#all-metrics button').length") == 0:
        return
    for count in (1, 0):
        browser.value(rows_of_metrics + "[0].querySelector('button').click()")
        assert browser.value("document.querySelectorAll('#chosen-metrics canvas').length > 0") == bool(count), "the chart of a metric"


rows_of_metrics = "[...document.querySelectorAll('#all-metrics tbody tr')].filter((row) => !row.hidden)"


def check(browser, page, screenshots):
    paints, papers = [], {}
    for scheme in ("light", "dark", "light"):
        browser.open(page, scheme)
        paints.append(browser.value("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        papers[scheme] = browser.value("getComputedStyle(document.body).backgroundColor")
        for selector in ("h1", ".lead", ".card dd.detail", "td", "thead th", ".badge", ".hint", ".notes li", ".notes .warning",
                         ".missing", "figcaption span", ".legend li"):
            ratio = contrast(browser, selector)
            assert ratio is None or ratio >= 4.5, f"{selector} in {scheme}: a contrast of {ratio:.1f}"
        if screenshots and scheme not in [name for name in papers if name != scheme]:
            browser.screenshot(screenshots / f"{page.stem}-{scheme}.png")
    found = list(complaints(browser.events))
    assert not found, "\n".join(found)
    assert min(paints) < PAINT_MS, f"first painted after {paints} ms"
    assert luminance(papers["light"]) > 0.8 and luminance(papers["dark"]) < 0.05, papers
    charts = browser.value("document.querySelectorAll('.chart').length")
    blank = browser.value("""[...document.querySelectorAll('.chart')].filter((chart) => {
      const canvas = chart.querySelector('canvas:last-of-type') || chart.querySelector('canvas');
      return ![...chart.querySelectorAll('canvas')].some((canvas) => canvas.getContext('2d')
        .getImageData(0, 0, canvas.width, canvas.height).data.some((byte) => byte > 0)); }).map((chart) => chart.id)""")
    assert not blank, f"blank charts: {blank}"
    assert browser.value("document.querySelectorAll('figure').length === document.querySelectorAll('figure table').length")
    assert browser.value("typeof injected") == "undefined", "markup of a name was run"
    turning = "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u202a-\\u202e\\u2066-\\u2069]"
    obeyed = browser.value(f"document.documentElement.textContent.match(/{turning}/)?.index ?? -1")
    assert obeyed < 0, "a character that a browser obeys is shown"
    assert browser.value("document.querySelectorAll('[onerror], main script:not([type])').length") == 0, "markup got in"
    check_keyboard(browser)
    check_search(browser)
    found = list(complaints(browser.events))
    assert not found, "\n".join(found)
    for width in (390, 700):
        browser.open(page, width=width, height=800)
        wide = browser.value("document.documentElement.scrollWidth")
        assert wide <= width, f"a window of {width} pixels scrolls sideways: {wide} pixels"
        narrow = browser.value("Math.min(1000, ...[...document.querySelectorAll('.bar')].map((bar) => bar.clientWidth))")
        assert narrow >= 100, f"in a window of {width} pixels a bar has {narrow}"
        if screenshots:
            browser.screenshot(screenshots / f"{page.stem}-{width}.png")
    browser.open(page, "dark")
    browser.call("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    paper = browser.value("getComputedStyle(document.body).backgroundColor")
    assert luminance(paper) > 0.8, f"{paper} is printed on"
    assert browser.value("getComputedStyle(document.querySelector('nav')).display") == "none", "links are printed"
    browser.call("Emulation.setEmulatedMedia", media="")
    print(f"{page.name}: {charts} charts, {page.stat().st_size // 1000} KB, first paint after {min(paints):.0f} ms")


def check_served(browser, address):
    browser.events.clear()
    browser.navigate(address)
    browser.value("document.querySelector('input[value=tokens]').click()")
    browser.value("document.querySelector('input[name=logarithm]').click()")
    browser.value("document.querySelector('input[name=run]').click()")
    browser.value("document.querySelector('#figure-loss summary').click()")
    browser.value("document.querySelector('#all-metrics button').click()")
    browser.value("new Promise((done) => setTimeout(done, 100))")  # until its event is there
    browser.call("Page.navigate", url="about:blank")
    browser.navigate(address)
    chosen = browser.value("['input[value=tokens]', 'input[name=logarithm]', 'input[name=run]']"
                           ".map((name) => document.querySelector(name).checked)")
    assert chosen == [True, True, False], f"after a reload: {chosen}"
    assert browser.value("document.querySelector('#figure-loss details').open"), "a table is closed by a reload"
    assert browser.value("document.getElementById('legend-rate').children.length") == 2
    assert browser.value("document.querySelectorAll('#chosen-metrics canvas').length") > 0, "the chart of a metric is gone after a reload"
    found = list(complaints(browser.events))
    assert not found, "\n".join(found)
    print("served: what was chosen outlives a reload")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="+", type=pathlib.Path)
    parser.add_argument("--screenshots", type=pathlib.Path)
    parser.add_argument("--address")
    args = parser.parse_args()
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        print("skipped: no browser is installed (chromium)")
        return 77
    if args.screenshots:
        args.screenshots.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        try:
            for page in args.pages:
                check(browser, page, args.screenshots)
            page = args.address
            if page:
                check_served(browser, page)
        except AssertionError as problem:
            print(f"FAILED: {page}: {problem}", file=sys.stderr)
            return 1
        finally:
            browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
