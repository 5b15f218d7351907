"""The style of the report in a browser: light and dark, wide and narrow, on paper."""

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #f6f8fa; --card: #fff; --soft: #57606a; --line: #d0d7de;
  --code: #f6f8fa; --critical: #b3261e; --warning: #8a5a00; --info: #0550ae; --consequence: #6e7781; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #0d1117; --card: #151b23; --soft: #9198a1;
  --line: #30363d; --code: #0d1117; --critical: #ff7b72; --warning: #d29922; --info: #79c0ff;
  --consequence: #8b949e; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 60rem;
  margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.3rem; margin: 0; } header p { margin: 0 0 1rem; }
.soft, dt { color: var(--soft); }
article, .timeline { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 1rem;
  margin: 0 0 1rem; }
article { border-left: 4px solid var(--tone); scroll-margin-top: 1rem; }
.critical { --tone: var(--critical); } .warning { --tone: var(--warning); } .info { --tone: var(--info); }
.consequence { --tone: var(--consequence); }
article:target { outline: 2px solid var(--tone); }
h2 { font-size: 1.05rem; margin: 0 0 .3rem; overflow-wrap: anywhere; }
.badge { color: var(--tone); text-transform: uppercase; font-size: .75rem; letter-spacing: .05em; margin-right: .3rem; }
.what, .why { margin: 0 0 .5rem; overflow-wrap: anywhere; } .why { font-weight: 600; }
dl { display: grid; grid-template-columns: 6rem minmax(0, 1fr); gap: .4rem 1rem; margin: 0; }
dd { margin: 0; overflow-wrap: anywhere; }
pre, code { font: 13px/1.5 ui-monospace, monospace; }
pre { background: var(--code); border: 1px solid var(--line); border-radius: 6px; padding: .5rem .7rem; margin: 0;
  white-space: pre-wrap; overflow-wrap: anywhere; }
.timeline .row { display: grid; grid-template-columns: 17rem minmax(0, 1fr); gap: 0 1rem; align-items: center; }
.timeline .label { color: var(--ink); text-decoration: none; overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap; border-left: 4px solid var(--tone); padding-left: .5rem; margin: 1px 0; }
.timeline .label.consequence { color: var(--soft); margin-left: 1rem; }
.timeline .label:hover, .timeline .label:focus { text-decoration: underline; }
.timeline .track { position: relative; height: 1.3rem; background: linear-gradient(90deg, var(--line) 1px,
  transparent 1px) 0 0 / 25% 100%; border-right: 1px solid var(--line); }
.timeline .bar { position: absolute; top: .25rem; height: .8rem; min-width: 6px; border-radius: 3px;
  background: var(--tone); }
.timeline .axis .track { background: none; border: none; }
.timeline .tick { position: absolute; transform: translateX(-50%); font-size: .75rem; color: var(--soft);
  white-space: nowrap; }
.timeline .tick.first { transform: none; } .timeline .tick.last { transform: translateX(-100%); }
.timeline p { margin: .5rem 0 0; }
@media (max-width: 40rem) {
  dl { grid-template-columns: minmax(0, 1fr); gap: 0; } dt { margin-top: .5rem; font-size: .8rem; }
  .timeline .row { grid-template-columns: minmax(0, 1fr); } .timeline .between { display: none; }
}
@media print { body { background: none; } article { break-inside: avoid; } }
"""
