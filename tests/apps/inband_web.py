#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The page of inbandd in a real browser: inband_web.py URL STEP… runs the steps in turn, each a function below."""
import os
import subprocess
import sys

from browser import Browser, Failed

THSIM = os.environ["THSIM"]


def tell(*words):
    subprocess.run([THSIM, "--tell", " ".join(words)], check=True, stdout=subprocess.DEVNULL)


def cabinets(page):
    """Tianhe-2's cabinets are there, and a fault colours one without another load of the page."""
    page.until("document.querySelectorAll('.cabinet').length === 168")
    page.run("window.stays = true")
    assert page.run("return document.querySelectorAll('.cabinet .case.well').length") == 168
    page.until("document.querySelector('#live').className === 'on'")
    tell("cut", "S.leaf.3.7:4")
    page.until("document.querySelector('[data-cabinet=\"1.1\"] .case').classList.contains('warm')")
    page.until("document.querySelectorAll('.cabinet .case.well').length === 166")
    page.until("document.querySelector('#counts .major')?.textContent === '1 major'")
    tell("mend", "S.leaf.3.7:4")
    page.until("document.querySelectorAll('.cabinet .case.well').length === 168")
    assert page.run("return window.stays")


def clicks(page):
    """From a cabinet to a port by clicks alone, and its colour follows the link."""
    page.click("[data-cabinet='0.10']")
    page.until("document.querySelectorAll('svg.frame').length === 4")
    page.click("svg.frame")
    page.until("document.querySelectorAll('.chipbox').length === 6")
    assert page.run("return document.querySelectorAll('path.link').length") == 28 + 32
    page.run("window.stays = true")
    port = "[data-port='S.bottom.10.0.4:7']"
    assert "up" in page.run("return document.querySelector(arguments[0]).getAttribute('class')", port)
    tell("cut", "S.leaf.3.7:4")
    page.until(f"document.querySelector(\"{port}\").classList.contains('lost')")
    tell("mend", "S.leaf.3.7:4")
    page.until(f"document.querySelector(\"{port}\").classList.contains('up')")
    assert page.run("return window.stays")
    page.click(port)
    page.until("location.hash === '#device/S.bottom.10.0.4/7'")


def rights(page):
    """A viewer's POST is refused; the token makes an operator."""
    status = "return (await fetch('api/discover', {method: 'POST', body: '{}'})).status"
    assert page.run(status) == 403
    page.until("document.querySelector('#who').textContent === 'viewer'")
    page.click("#who")
    page.type("#token", "not-the-right-one-at-all")
    page.click("#login button.main")
    page.until("document.querySelector('#refused').textContent.includes('nobody has that token')")
    page.run("document.querySelector('#token').value = ''")
    page.type("#token", "0123456789abcdef")
    page.click("#login button.main")
    page.until("document.querySelector('#who').textContent === 'operator ada'")
    assert page.run(status) == 200
    page.click("#who")
    page.until("document.querySelector('#who').textContent === 'viewer'")
    assert page.run(status) == 403


def views(page):
    """Every view shows what it is there for."""
    at = page.run("return location.href")

    def go(view, wanted):
        page.run("location.hash = arguments[0]", view)
        return page.until(wanted)

    go("#layers", "document.querySelector('canvas.layers')")
    page.type("[name=from]", "17")
    page.type("[name=to]", "N.18003")
    page.click("form.trace button")
    assert page.until("document.querySelectorAll('ol.way li').length") == 11
    assert "arrived" in page.run("return document.querySelector('.traced').textContent")
    go("#overview", "document.querySelector('canvas.overview')")
    drawn = page.run("""const gl = document.querySelector('canvas.overview').getContext('webgl2'), pixel = new Uint8Array(4);
        let lit = 0;
        for (let x = 0; x < gl.drawingBufferWidth; x += 7) {
            gl.readPixels(x, gl.drawingBufferHeight / 2, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, pixel);
            lit += pixel[1] > 40;
        }
        return lit""")
    assert drawn > 50, drawn
    go("#device/S.leaf.3.7/4", "document.querySelectorAll('table.ports tbody tr').length === 24")
    assert "S.bottom.10.0.4:7" in page.run("return document.querySelector('tr.chosen').textContent")
    go("#device/S.leaf.3.7/4/registers", "document.querySelectorAll('.columns table').length === 2")
    assert "0x0240" in page.run("return document.querySelector('.columns').textContent")
    go("#device/S.leaf.3.7/4/configuration", "document.querySelector('table.facts')?.textContent.includes('link down')")
    go("#device/S.leaf.3.7/4/routes", "document.querySelectorAll('svg.table rect').length === 573")
    go("#device/S.leaf.3.7/4/traffic", "document.querySelectorAll('.chart canvas').length")
    go("#faults", "document.querySelector('#findings .good')")
    go("#traffic", "document.querySelector('#main .dim')?.textContent.includes('5,856')")
    go("#log", "document.querySelector('ol.log .cleared')")
    assert page.run("return location.href.split('#')[0]") == at.split('#')[0]


def plan(page):
    """Names, places and the plan's cables are an operator's to edit, and what was found stays."""
    page.click("#who")
    page.type("#token", "0123456789abcdef")
    page.click("#login button.main")
    page.until("document.querySelector('#who').textContent === 'operator ada'")
    page.run("location.hash = '#device/S.leaf.1.0/2/plan'")
    page.until("document.querySelector('form.plan')")
    page.run("""const inputs = document.querySelectorAll('form.plan input');
        inputs[0].value = 'leaf-one';
        inputs[inputs.length - 1].value = ''""")
    page.click("form.plan button")
    page.until("document.querySelector('h2.device')?.textContent.startsWith('leaf-one')")
    page.run("location.hash = '#faults'")
    page.until("document.querySelector('#findings')?.textContent.includes('leaf-one:2')")
    page.run("location.hash = '#device/leaf-one/2'")
    page.until("document.querySelector('tr.chosen')?.textContent.includes('S.bottom.')")


def main():
    url, *steps = sys.argv[1:]
    with Browser() as page:
        for step in steps:
            page.go("about:blank")
            page.go(url)
            page.until("document.querySelector('#who')?.textContent")
            try:
                globals()[step](page)
            except (Failed, AssertionError):
                page.picture("inband_web.png")
                raise
            print(f"{step}: ok")
        wrong = [line for line in page.complaints() if " 403 " not in line]
        assert not wrong, wrong


main()
