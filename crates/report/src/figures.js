// A figure's other axis, and its picture as a file of its own.
(() => {
  const properties = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity",
    "stroke-linejoin", "stroke-linecap", "opacity", "font-size", "font-weight", "text-anchor", "paint-order", "display"];
  const picture = (svg) => {
    const copy = svg.cloneNode(true), from = [svg, ...svg.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
    from.forEach((e, i) => {
      const style = getComputedStyle(e);
      to[i].setAttribute("style", properties.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";"));
    });
    const [, , width, height] = svg.getAttribute("viewBox").split(" ");
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    copy.style.background = getComputedStyle(svg.closest("figure")).backgroundColor;
    copy.style.fontFamily = "sans-serif";
    return new XMLSerializer().serializeToString(copy);
  };
  for (const figure of document.querySelectorAll("figure:has(.plot)")) {
    const tools = figure.querySelector(".tools"), plots = [...figure.querySelectorAll(".plot")];
    const shown = () => plots.find((plot) => !plot.hidden);
    const link = document.createElement("a");
    link.textContent = "SVG";
    link.download = (figure.id || "figure") + ".svg";
    link.href = "#";
    link.addEventListener("click", () => {
      link.href = URL.createObjectURL(new Blob([picture(shown().querySelector("svg"))], { type: "image/svg+xml" }));
      setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    });
    tools.append(link);
    if (plots.length < 2) continue;
    const button = document.createElement("button");
    const name = () => (button.textContent = shown().dataset.axis === "log" ? "Linear scale" : "Log scale");
    button.type = "button";
    button.addEventListener("click", () => {
      for (const plot of plots) plot.hidden = !plot.hidden;
      name();
    });
    name();
    tools.append(button);
  }
})();
