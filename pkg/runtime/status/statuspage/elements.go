package statuspage

import (
	dom "maragu.dev/gomponents"
	"maragu.dev/gomponents/html"
)

// none is shown if there is no value.
const none = "–"

// section is a part of the page with a heading. The aside, if any, stands next to it in
// small print.
func section(id, heading, aside string, children ...dom.Node) dom.Node {
	title := html.H2(dom.Text(heading))
	if aside != "" {
		title = html.H2(dom.Text(heading+" "), html.Small(dom.Text(aside)))
	}
	return html.Section(html.ID(id), title, dom.Group(children))
}

func panel(children ...dom.Node) dom.Node {
	return html.Div(html.Class("panel"), dom.Group(children))
}

// facts is a panel with a list of facts, and what follows it.
func facts(list dom.Group, after ...dom.Node) dom.Node {
	return html.Div(html.Class("panel pad"), html.Dl(html.Class("facts"), list), dom.Group(after))
}

func fact(name string, value ...dom.Node) dom.Node {
	return dom.Group{html.Dt(dom.Text(name)), html.Dd(value...)}
}

// table is a panel with a table.
func table(columns, rows dom.Group) dom.Node {
	return panel(html.Table(html.THead(html.Tr(columns)), html.TBody(rows)))
}

func column(name string) dom.Node {
	return html.Th(dom.Text(name))
}

// numbers is a column of numbers.
func numbers(name string) dom.Node {
	return html.Th(html.Class("number"), dom.Text(name))
}

// cell repeats the name of its column, for screens too narrow for a table.
func cell(column string, children ...dom.Node) dom.Node {
	return html.Td(html.Data("label", column), dom.Group(children))
}

func number[N int | int32 | uint64](column string, n N, more ...dom.Node) dom.Node {
	return cell(column, html.Class("number"), dom.Textf("%d", n), dom.Group(more))
}

func chip(tone Tone, text string) dom.Node {
	return span("chip "+string(tone), text)
}

func span(class, text string) dom.Node {
	return html.Span(html.Class(class), dom.Text(text))
}

// line is a line of its own, or nothing if there is no text.
func line(class, text string) dom.Node {
	return dom.If(text != "", html.Div(html.Class(class), dom.Text(text)))
}

func lines(class string, all []string) dom.Group {
	return dom.Map(all, func(text string) dom.Node { return line(class, text) })
}

// folded shows how many names there are, and the names when it is opened.
func folded(names []string) dom.Node {
	return html.Details(html.Class("plain"),
		html.Summary(dom.Textf("%d", len(names))),
		dom.Map(names, func(name string) dom.Node { return dom.Group{dom.Text(name), html.Br()} }))
}
