document.querySelectorAll("svg.plot").forEach(function (svg) {
  var numbers = function (name) { return svg.getAttribute(name).split(" ").map(Number); };
  var frame = numbers("data-frame"), y = numbers("data-y");
  var tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  svg.parentNode.appendChild(tip);
  svg.addEventListener("mouseleave", function () { tip.hidden = true; });
  svg.addEventListener("mousemove", function (event) {
    var box = svg.getBoundingClientRect();
    var scale = svg.viewBox.baseVal.width / box.width;
    var at = (event.clientX - box.left) * scale;
    var found = [];
    svg.querySelectorAll(".series").forEach(function (series) {
      var line = series.querySelector("polyline");
      var points = line
        ? Array.from(line.points, function (p) { return [p.x, p.y]; })
        : Array.from(series.querySelectorAll("circle"), function (c) {
            return [c.cx.baseVal.value, c.cy.baseVal.value];
          });
      if (!points.length) { return; }
      var near = points.reduce(function (a, b) {
        return Math.abs(b[0] - at) - Math.abs(a[0] - at) >= 0 ? a : b;
      });
      var part = (frame[3] - near[1]) / (frame[3] - frame[1]);
      var value = y[0] + part * (y[1] - y[0]);
      found.push(series.getAttribute("data-name") + " " + Number(value.toPrecision(4)));
    });
    tip.textContent = found.join(", ");
    tip.hidden = found.length === 0;
    var figure = svg.parentNode.getBoundingClientRect();
    var left = Math.min(event.clientX - figure.left + 12, figure.width - tip.offsetWidth - 4);
    tip.style.left = Math.max(left, 4) + "px";
    tip.style.top = event.clientY - figure.top - 30 + "px";
  });
});
