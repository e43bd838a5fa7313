// The charts of the live page: one small chart for each figure, and bars for all batches together.

const NAME = "plot"; // the class under which the policy knows the one style element of a chart
const GAP = 14.4, LEAST = 208; // pixels between two charts, and the least width of one

export const columns = width => Math.max(1, Math.floor((width + GAP) / (LEAST + GAP)));

/** Half the width of an interval of shares: “± 2 %” might be two percent of the share. */
export const points = text => text.replace("%", "points");

/** Half of an interval; none if an end is missing, which would count as 0. */
export const half = (low, high) => low === null || high === null ? null : (high - low) / 2;

// Round times in UTC, as hours and minutes, with seconds or as days if the window is short or long, and only as many
// as there is room for.
function times([from, to], room) {
  const span = to - from;
  const [format, width] = span < 4 * 60e3 ? ["%H:%M:%S", 64] : span < 36 * 3600e3 ? ["%H:%M", 46] : ["%-d %b", 50];
  const found = span ? d3.utcTicks(from, to, 6) : from ? [from] : [];
  const apart = found.length > 1 ? room * (found[1] - found[0]) / span : width, step = Math.ceil(width / apart);
  return { domain: span ? [from, to] : undefined, ticks: found.filter((_, place) => place % step === 0), tickFormat: d3.utcFormat(format) };
}

/** A number on an axis, short enough for its margin. */
function brief(value) {
  const size = Math.abs(value);
  return size >= 1e4 ? d3.format("~s")(value) : size && size < 1e-3 ? d3.format(".2~e")(value) : String(Number(value.toPrecision(6)));
}

export function seriesChart(figure, series, { width, top, lost, label }) {
  const points = series.time.map((time, place) => ({
    time: new Date(1000 * time), value: figure.value[place], low: figure.low[place], high: figure.high[place],
  })).filter(one => one.value !== null && one.low !== null && one.high !== null);
  const shares = figure.unit === "people";
  // The window is that of all its batches, so that the charts of one window have one axis.
  const window = d3.extent([...series.time, ...lost], time => new Date(1000 * time));
  const alone = points.length === 1, dots = points.length <= 40;
  const marks = [
    Plot.ruleX(lost.map(time => new Date(1000 * time)), { className: "lost", strokeDasharray: "3,3" }),
    ...(alone ? [Plot.ruleX(points, { x: "time", y1: "low", y2: "high", className: "curve", strokeWidth: 4, strokeOpacity: 0.4 })]
      : [Plot.areaY(points, { x: "time", y1: "low", y2: "high", className: "band" }),
         Plot.lineY(points, { x: "time", y: "value", className: "curve", strokeWidth: 1.6 })]),
    ...(dots ? [Plot.dot(points, { x: "time", y: "value", r: 2, className: "point", stroke: "none" })] : []),
  ];
  return labelled(Plot.plot({
    className: NAME, width, height: 150, marginLeft: 46, marginRight: 28, marginBottom: 26, marginTop: 12,
    x: { type: "utc", label: null, ...times(window, width - 74) },
    y: { label: null, grid: true, ticks: 4, zero: shares, domain: top === null ? undefined : [Math.min(0, ...figure.low), top],
      tickFormat: shares ? value => `${Math.round(100 * value)} %` : brief },
    marks,
  }), label);
}

export function pooledChart(rows, width, figure) {
  const shares = rows.filter(one => one.unit === "people"), others = rows.filter(one => one.unit !== "people");
  const holder = document.createElement("div");
  if (shares.length) holder.append(bars(shares.toSorted((a, b) => b.value - a.value).slice(0, 40), width, figure));
  for (const one of others) {
    const line = document.createElement("p"), strong = document.createElement("b");
    strong.textContent = one.label;
    line.append(strong, ` ${figure(one.value, one.unit)} (${figure(one.low, one.unit)} to ${figure(one.high, one.unit)})`);
    holder.append(line);
  }
  return holder;
}

function bars(rows, width, figure) {
  const words = one => `${figure(one.value, one.unit)} ± ${points(figure(half(one.low, one.high), one.unit))}`;
  const left = Math.min(0.35 * width, 14 + 7.2 * Math.max(...rows.map(one => one.label.length)));
  const longest = Math.floor((left - 14) / 7.2), short = label => label.length > longest ? `${label.slice(0, longest - 1)}…` : label;
  const chart = Plot.plot({
    className: NAME, width, height: 34 + 26 * rows.length, marginLeft: left, marginRight: 150, marginTop: 6,
    x: { label: null, tickFormat: value => `${Math.round(100 * value)} %`, grid: true, domain: [Math.min(0, ...rows.map(one => one.low)), Math.max(0.01, ...rows.map(one => one.high))], ticks: Math.max(2, Math.floor(width / 140)) },
    y: { label: null, domain: rows.map(one => one.label), tickFormat: short, tickSize: 0 },
    marks: [
      Plot.barX(rows, { x: "value", y: "label", className: "bars", insetTop: 2, insetBottom: 2 }),
      Plot.ruleY(rows, { x1: "low", x2: "high", y: "label", className: "ends", strokeWidth: 2 }),
      Plot.text(rows, { x: "high", y: "label", text: words, textAnchor: "start", dx: 8, className: "value" }),
    ],
  });
  return labelled(chart, `Shares of all batches together: ${rows.map(one => `${one.label} ${words(one)}`).join(", ")}`);
}

function labelled(chart, label) {
  // The chart is one picture with one label: its parts are not announced.
  for (const part of chart.querySelectorAll("[aria-label], [aria-description]")) {
    part.removeAttribute("aria-label");
    part.removeAttribute("aria-description");
  }
  chart.setAttribute("role", "img");
  chart.setAttribute("aria-label", label);
  const holder = document.createElement("div");
  holder.className = "chart";
  holder.append(chart);
  return holder;
}
