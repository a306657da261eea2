package statuspage

import (
	"fmt"
	"strconv"

	dom "maragu.dev/gomponents"
	"maragu.dev/gomponents/html"
)

func header(v View) dom.Node {
	return html.Header(
		html.H1(dom.Text("kube-controller-manager")),
		html.P(html.Class("sub"),
			dom.Textf("%s on %s · up %s · as of ", v.Version, v.Host, v.Uptime),
			html.Time(html.DateTime(v.Now), dom.Text(v.Now))),
		html.Div(html.Class("banner "+string(v.Verdict.Tone)), html.ID("verdict"), html.Role("status"), dom.Text(v.Verdict.Text)),
		html.Dl(html.Class("cards"), dom.Map(v.Cards, card)),
	)
}

func card(c Card) dom.Node {
	return html.Div(html.Class("card"),
		html.Dt(dom.Text(c.Label)),
		html.Dd(dom.Text(c.Value), html.Small(dom.Text(c.Detail))))
}

func configuration(c Configuration) dom.Node {
	now := chip(Good, "in force")
	if c.Rejected != "" {
		now = dom.Group{chip(Bad, "rejected"), dom.Textf(" generation %d stays in force", c.Generation)}
	}
	return section("configuration", "Configuration", "", facts(
		dom.Group{
			fact("File", html.Class("mono"), dom.Text(c.File)),
			fact("In force", dom.Textf("generation %d, ", c.Generation), span("mono", "sha256:"+c.Hash)),
			dom.If(c.LastGood != "", fact("Instead of the file", chip(Bad, "last good configuration"), dom.Text(" "+c.LastGood))),
			dom.If(c.NotKept != "", fact("Kept as the last good", span("problem", c.NotKept))),
			fact("Current file content", now),
		},
		dom.If(c.Rejected != "", html.Pre(html.ID("rejected"), dom.Text(c.Rejected))),
	))
}

func leases(c Connection, all []Lease) dom.Node {
	columns := dom.Group{
		column("Lock"), column("This process"), column("Holder"), numbers("Term"),
		column("Renewed"), numbers("Transitions"), column("Controllers"),
	}
	return section("leases", "Leases", "and the API server",
		facts(dom.Group{
			fact("API server", html.Class("mono"), dom.Text(c.Server)),
			fact("Credentials", credentials(c)),
		}),
		table(columns, dom.Map(all, lease)),
	)
}

func credentials(c Connection) dom.Node {
	state := dom.Text("in use")
	if c.Error != "" {
		state = span("problem", c.Error)
	}
	return dom.Group{
		state,
		dom.If(c.Renewed > 0, dom.Textf(", renewed %d times", c.Renewed)),
		span("quiet", fmt.Sprintf(" (connection %d)", c.Generation)),
	}
}

func lease(l Lease) dom.Node {
	under := dom.Text(none)
	if len(l.Controllers) > 0 {
		under = folded(l.Controllers)
	}
	return html.Tr(html.Data("lock", l.Lock),
		cell("Lock", html.Class("name"), dom.Text(l.Lock)),
		cell("This process", chip(l.Tone, l.State)),
		cell("Holder", html.Class("text"), html.Div(span("mono", l.Holder), line("problem below", l.Error))),
		number("Term", l.Term),
		cell("Renewed", dom.Text(l.Renewed)),
		number("Transitions", l.Transitions),
		cell("Controllers", html.Class("text"), html.Div(under, lines("problem", l.Blocked))),
	)
}

func controllers(running int, span string, all []Controller) dom.Node {
	columns := dom.Group{
		column("Controller"), column("State"), column("Instance"), numbers("Queued"),
		column("In flight"), numbers("Workers"), numbers("Done"), numbers("Failed"),
	}
	return section("controllers", "Controllers", fmt.Sprintf("%d of %d run", running, len(all)),
		table(columns, dom.Map(all, func(c Controller) dom.Node { return controller(c, span) })))
}

func controller(c Controller, span string) dom.Node {
	return html.Tr(html.Data("controller", c.Name), html.Data("state", c.State),
		cell("Controller", html.Class("name"), dom.Text(c.Name),
			line("problem below", c.Problem), line("quiet below", c.Reason), lastError(c)),
		cell("State", chip(c.Tone, c.State)),
		cell("Instance", html.Div(instance(c), lines("quiet below", c.Restarts))),
		ofLoops(c, "Queued", c.Queued, curve("spark", "keys queued, "+span, 80, 16, c.QueuedPast)),
		inFlight(c),
		ofLoops(c, "Workers", c.Workers),
		ofLoops(c, "Done", c.Done, curve("spark", "keys done per second, "+span, 80, 16, c.DonePast)),
		ofLoops(c, "Failed", c.Failed),
	)
}

func lastError(c Controller) dom.Node {
	return dom.If(c.LastError != "", html.Details(html.Class("plain below"),
		html.Summary(dom.Text("last error, "+c.LastErrorAge)),
		line("problem", c.LastError)))
}

func instance(c Controller) dom.Node {
	if c.Generation == 0 {
		return dom.Text(none)
	}
	return dom.Group{
		dom.Textf("#%d", c.Generation),
		dom.If(c.Up != "", dom.Group{dom.Text(" "), span("quiet", "up "+c.Up)}),
	}
}

// ofLoops is a number that only a controller with work loops has.
func ofLoops[N int | uint64](c Controller, column string, n N, more ...dom.Node) dom.Node {
	if c.Loops == 0 {
		return cell(column, html.Class("number none"))
	}
	return number(column, n, more...)
}

func inFlight(c Controller) dom.Node {
	class := ""
	if len(c.InFlight) == 0 {
		class = "none"
	}
	return cell("In flight", html.Class(class), keys(c.InFlight, c.More))
}

func keys(shown []Key, more int) dom.Node {
	if len(shown) == 0 {
		return nil
	}
	return html.Ul(html.Class("keys"),
		dom.Map(shown, func(k Key) dom.Node {
			return html.Li(span("mono", k.Key), dom.Text(" "), span("quiet", k.Age))
		}),
		dom.If(more > 0, html.Li(html.Class("quiet"), dom.Textf("and %d more", more))))
}

func reloads(all []Reload) dom.Node {
	rows := dom.Map(all, reload)
	if len(all) == 0 {
		rows = dom.Group{html.Details(html.Summary(html.Class("quiet"), dom.Text("The file has not changed since the process started.")))}
	}
	return section("reloads", "Reloads", "newest first", panel(rows))
}

func reload(r Reload) dom.Node {
	return html.Details(dom.If(r.Open, dom.Attr("open")), html.Data("generation", strconv.FormatUint(r.Generation, 10)),
		html.Summary(
			chip(r.Tone, r.Status), dom.Text(" "+r.Time+" "),
			span("quiet", fmt.Sprintf("%s · generation %d in force · %s", r.Age, r.Generation, r.Took))),
		dom.If(r.Error != "", html.Pre(dom.Text(r.Error))),
		dom.If(len(r.Steps) > 0, html.Ul(html.Class("changes"), dom.Map(r.Steps, step))),
		dom.If(r.Rest != "", html.P(html.Class("quiet below"), dom.Text(r.Rest))),
	)
}

func step(s Step) dom.Node {
	return html.Li(
		html.Span(html.Class("what"), chip(s.Tone, s.What)), dom.Text(" "),
		dom.If(s.Subject != "", dom.Group{html.Strong(dom.Text(s.Subject)), dom.Text(" ")}),
		span("mono", s.Detail),
	)
}

func caches(objects int, all []Informer) dom.Node {
	columns := dom.Group{
		column("Resource"), column("State"), column("Form"), numbers("Objects"), numbers("Handlers"), column("Read by"),
	}
	return section("caches", "Caches", fmt.Sprintf("%d informers, %d objects", len(all), objects),
		table(columns, dom.Map(all, informer)))
}

func informer(i Informer) dom.Node {
	readers := span("quiet", "nobody, "+i.Idle)
	if len(i.Readers) > 0 {
		readers = folded(i.Readers)
	}
	return html.Tr(html.Data("informer", i.Name),
		cell("Resource", html.Class("name"), dom.Text(i.Name),
			line("quiet below mono", i.Filter), line("problem below", i.Error)),
		cell("State", chip(i.Tone, i.State)),
		cell("Form", dom.Text(i.Form)),
		number("Objects", i.Objects),
		number("Handlers", i.Handlers),
		cell("Read by", html.Class("text"), readers),
	)
}

// links are the page itself, loaded again or not, and the other pages of the process.
var links = []struct{ to, name string }{
	{"?refresh=5", "every 5 seconds"},
	{"?", "not again"},
	{"/statusz?format=json", "JSON"},
	{"/configz", "configuration"},
	{"/flagz", "flags"},
	{"/healthz?verbose", "health"},
	{"/readyz?verbose", "readiness"},
	{"/metrics", "metrics"},
}

func footer() dom.Node {
	var shown dom.Group
	for i, link := range links {
		shown = append(shown, dom.If(i > 0, dom.Text(" ")), html.A(html.Href(link.to), dom.Text(link.name)))
	}
	return html.Footer(html.P(shown))
}
