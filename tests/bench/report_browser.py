"""Pages in headless Chromium, for report_test.py, and JavaScript that reads what they show."""
import os
import shutil
import time

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

LIMIT = 1 << 20  # bytes of a page

SELECT = """
for (const [name, text] of Object.entries(arguments[0])) {
  const select = document.querySelector(`select[name="${name}"]`);
  if (!select) continue;
  const option = [...select.options].find(option => option.text === text);
  if (!option) throw new Error(`${name} has no ${text}`);
  if (select.value === option.value) continue;
  select.value = option.value;
  select.dispatchEvent(new Event("change"));
}"""
CURVES = """
return ["busbw", "latency"].map(id => {
  const chart = Chart.getChart(document.getElementById(id));
  return chart.data.datasets.map((set, i) => ({label: set.label, ceiling: set.name === "",
    shown: chart.isDatasetVisible(i), colour: set.borderColor,
    points: set.data.map(point => [point.x, point.y])}));
});"""
TABLE = """
return [...document.querySelectorAll(arguments[0] + " tr")].map(
  row => [...row.cells].map(cell => cell.textContent));"""
# The least contrast of all words, each against what is painted below it, and which that is.
CONTRAST = """
const parse = text => {
  const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
  return {rgb: [r, g, b], a};
};
const over = (top, below) => top.rgb.map((value, i) => value * top.a + below[i] * (1 - top.a));
const light = rgb => rgb.map(v => v / 255)
  .map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
const ground = element => {
  if (!element) return [255, 255, 255];
  const own = parse(getComputedStyle(element).backgroundColor);
  return own.a === 1 ? own.rgb : over(own, ground(element.parentElement));
};
const contrast = (one, other) => {
  const [a, b] = [light(one), light(other)].sort((x, y) => y - x);
  return (a + .05) / (b + .05);
};
let worst = [99, ""];
for (const element of document.querySelectorAll("body *")) {
  const words = [...element.childNodes].some(n => n.nodeType === 3 && n.data.trim());
  if (!words || !element.checkVisibility() || element.tagName === "OPTION") continue;
  const below = ground(element);
  const value = contrast(over(parse(getComputedStyle(element).color), below), below);
  if (value < worst[0]) worst = [value, element.tagName + " " + element.textContent.slice(0, 40)];
}
const surface = ground(document.querySelector("section"));
const curves = Object.values(Chart.instances).flatMap(chart => chart.data.datasets)
  .filter(set => set.name && set.borderColor.startsWith("#"))
  .map(set => contrast(surface, set.borderColor.match(/[^#]{2}/g).map(v => parseInt(v, 16))));
return {words: worst, curve: Math.min(...curves), surface: light(surface)};"""


class Browser:
    def __init__(self, folder):
        self.folder = folder
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for argument in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage",
                         f"--user-data-dir={folder / 'profile'}",
                         *["--no-sandbox"] * (os.getuid() == 0)):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")),
                                       options=options)
        self.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {
            "behavior": "allow", "downloadPath": str(folder)})
        self.run = self.driver.execute_script

    def open(self, page, width=1280, dark=False):
        assert page.stat().st_size < LIMIT, (page, page.stat().st_size)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})
        self.width(width)
        self.driver.get(page.as_uri())
        self.quiet()

    def width(self, width):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})

    def quiet(self):
        assert not (said := self.driver.get_log("browser")), said

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def click(self, selector):
        self.run("document.querySelector(arguments[0]).click()", selector)

    def saved(self, selector, name):
        """The text of the file that the button saves."""
        self.click(selector)
        file = self.folder / name
        for _ in range(600):
            if file.is_file():
                return file.read_text(encoding="utf-8")
            time.sleep(.1)
        raise AssertionError(f"{name} was not saved")
