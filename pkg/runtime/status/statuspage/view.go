package statuspage

// Tone is how something looks. Its meaning is always expressed in words, too.
type Tone string

const (
	// Good: it is as it should be.
	Good Tone = "good"
	// Warn: it deserves attention, or is about to change.
	Warn Tone = "warn"
	// Bad: it is broken.
	Bad Tone = "bad"
	// Calm: it is neither good nor bad.
	Calm Tone = "calm"
)

// View is what the page shows.
type View struct {
	// Refresh is after how many seconds the browser loads the page again, 0 for never.
	Refresh int
	// Title is that of the document, which browsers show on a tab.
	Title string
	// Version is that of the program, Host the name of the machine it runs on, Uptime for
	// how long it has been running.
	Version, Host, Uptime string
	// Now is the time of the status, in RFC 3339.
	Now     string
	Verdict Verdict
	Cards   []Card

	// Span is how far Plots and the plots of Controllers go back.
	Span  string
	Plots []Plot

	Configuration Configuration
	Connection    Connection
	Leases        []Lease
	// Running counts those of Controllers that run.
	Running     int
	Controllers []Controller
	// Reloads are in the order in which they are shown.
	Reloads []Reload
	// Objects counts the objects of all Informers.
	Objects   int
	Informers []Informer
}

// Verdict sums the status up in a sentence.
type Verdict struct {
	Tone Tone
	Text string
}

// Card is one of the numbers at the top of the page, with a detail in small print.
type Card struct{ Label, Value, Detail string }

// Plot is a number over time. Now is its newest value, Most says which was the largest.
type Plot struct {
	Label, Now, Most string
	Points           []Point
}

// Point is a point of a plot. X is from 0, the beginning of the span, to 1, now; Y is from 0 to 1,
// the largest value.
type Point struct{ X, Y float64 }

// Configuration is what is in force.
type Configuration struct {
	File, Hash string
	Generation uint64
	// Rejected is why the current content of the file is not in force, empty if it is.
	Rejected string
	// LastGood is where the configuration in force comes from, empty if from the file.
	LastGood string
	// NotKept is why it is not kept as the last good one, empty if it is or is not to be.
	NotKept string
}

// Connection is that to the API server.
type Connection struct {
	// Server is its URL.
	Server     string
	Generation uint64
	// Renewed counts changes of credentials; 0 is not shown.
	Renewed uint64
	// Error is why the newest credentials are not in use, empty if they are.
	Error string
}

// Lease is a row of the leases.
type Lease struct {
	Lock string
	// State is the role of this process for the lease, Tone how that looks.
	State string
	Tone  Tone
	// Holder is who holds it, Error why this process's newest attempt to hold it failed,
	// empty if it did not.
	Holder, Error string
	Term          uint64
	// Renewed is when the lease was last seen to be renewed.
	Renewed     string
	Transitions int32
	// Controllers are the names of those that run under it, Blocked a sentence for each
	// that cannot.
	Controllers, Blocked []string
}

// Controller is a row of the controllers.
type Controller struct {
	Name  string
	State string
	Tone  Tone
	// Problem is what is wrong with it, Reason why it is in its state. Either may be empty.
	Problem, Reason string
	// LastError is the newest error, if there is one, and LastErrorAge when it was.
	LastError, LastErrorAge string
	// Generation counts the instances; 0 is shown as none. Up is for how long the newest
	// has been running, empty if it is not.
	Generation uint64
	Up         string
	// Restarts has a line per cause of restarts.
	Restarts []string
	// Loops counts the work loops. Without any there are no numbers to show of them, and
	// Queued, Workers, Done and Failed stay empty.
	Loops           int
	Queued, Workers int
	Done, Failed    uint64
	// QueuedPast are the keys that were queued, DonePast those that were done per second, over
	// the span of the plots. They are empty if there were none.
	QueuedPast, DonePast []Point
	// InFlight are the keys that are worked on, More counts those besides.
	InFlight []Key
	More     int
}

// Key is an object that is worked on, and for how long it has been.
type Key struct{ Key, Age string }

// Reload is an attempt to put a changed configuration in force.
type Reload struct {
	// Time is when it was, in RFC 3339, Age the same as seen from now, Took how long it took.
	Time, Age, Took string
	Status          string
	Tone            Tone
	// Generation is what was in force afterwards.
	Generation uint64
	// Error is why it failed, empty if it did not.
	Error string
	// Open is whether its details are shown at once.
	Open bool
	// Steps are what it did, Rest sums up what it did not touch.
	Steps []Step
	Rest  string
}

// Step is one change that a reload made. Subject is the part that changed, empty if it is the
// process as a whole.
type Step struct {
	What, Subject, Detail string
	Tone                  Tone
}

// Informer is a row of the caches.
type Informer struct {
	// Name is that of the resource, with its group.
	Name string
	// Filter is what restricts the objects in it, empty if nothing does.
	Filter string
	State  string
	Tone   Tone
	// Form is how objects are kept.
	Form string
	// Error is what keeps it from making progress, empty if nothing does.
	Error             string
	Objects, Handlers int
	// Readers are who reads it. If nobody does, Idle is since when.
	Readers []string
	Idle    string
}
