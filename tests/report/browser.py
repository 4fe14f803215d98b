# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium for the tests of pages, or a skip that says what is missing.

Selenium is Debian's, for Debian's Python: where another Python comes first, the test goes on in that.
"""
import base64
import json
import os
import shutil
import sys

DEBIAN = '/usr/bin/python3'
SIZES = {'phone': (390, 844), 'desktop': (1280, 900)}


def selenium():
    """The modules, or None."""
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
        return webdriver, Service
    except ImportError:
        if os.path.exists(DEBIAN) and not os.environ.get('PENSTOCK_TEST_DEBIAN_PYTHON'):
            os.environ['PENSTOCK_TEST_DEBIAN_PYTHON'] = '1'
            os.execv(DEBIAN, [DEBIAN, *sys.argv])
        return None


def missing():
    """What is not there, in words, or None."""
    if not selenium():
        return 'python3-selenium is not installed'
    for program in ('chromium', 'chromedriver'):
        if not shutil.which(program):
            return f'{program} is not installed'
    return None


class Browser:
    """One page at a time; everything the page asked for or complained about is kept."""

    def __init__(self):
        webdriver, service = selenium()
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which('chromium')
        for arg in ('--headless=new', '--disable-gpu', '--disable-dev-shm-usage', '--hide-scrollbars',
                    '--no-sandbox', '--disable-background-networking', '--no-first-run'):
            options.add_argument(arg)
        options.set_capability('goog:loggingPrefs', {'browser': 'ALL', 'performance': 'ALL'})
        self.driver = webdriver.Chrome(options=options, service=service(shutil.which('chromedriver')))
        self.driver.set_script_timeout(600)
        self.complaints, self.requests = [], []

    def open(self, path, size='desktop', dark=False):
        width, height = SIZES[size]
        self.cdp('Emulation.setDeviceMetricsOverride', width=width, height=height,
                 deviceScaleFactor=1, mobile=size == 'phone')
        self.cdp('Emulation.setEmulatedMedia', features=[
            {'name': 'prefers-color-scheme', 'value': 'dark' if dark else 'light'}])
        self.driver.get('file://' + os.path.abspath(path))
        self.listen()

    def listen(self):
        """Collect what the console and the network have seen since the last time."""
        self.complaints += self.driver.get_log('browser')
        for entry in self.driver.get_log('performance'):
            message = json.loads(entry['message'])['message']
            if message['method'] == 'Network.requestWillBeSent':
                self.requests.append(message['params']['request']['url'])

    def cdp(self, method, **params):
        return self.driver.execute_cdp_cmd(method, params)

    def js(self, script, *args):
        return self.driver.execute_script(script, *args)

    def press(self, *keys):
        from selenium.webdriver.common.action_chains import ActionChains
        ActionChains(self.driver).send_keys(*keys).perform()

    def screenshot(self, path, height=None):
        """All of the page, or so much of it; not only what fits the window."""
        width, whole = self.js('const d = document.documentElement; return [d.clientWidth, d.scrollHeight]')
        shot = self.cdp('Page.captureScreenshot', format='png', captureBeyondViewport=True,
                        clip={'x': 0, 'y': 0, 'width': width, 'height': min(height or whole, 12000), 'scale': 1})
        with open(path, 'wb') as f:
            f.write(base64.b64decode(shot['data']))

    def close(self):
        self.driver.quit()
