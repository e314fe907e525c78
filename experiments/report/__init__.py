"""`lobra report RUN...`: answers of finished runs as one HTML file that opens without a network.

`reading` makes answers of run directories, `compared` one of a comparison; `charts` turns their charts into Plotly's
data, `section` an answer into HTML, `page` all of them into the file. `look.css` and `draw.js` lie beside them. What
comes from a run is text: `text.safe` stands between it and HTML, `text.label` between it and Plotly's own markup.
"""
