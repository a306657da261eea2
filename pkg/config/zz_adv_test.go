package config
import ("testing";"strings";"time";"runtime";"fmt")
func TestZZAdv(t *testing.T) {
	fill := func(unit string) string { return header+"serving: {authorization: {alwaysAllowPaths: ["+strings.Repeat(unit, (MaxFileBytes-200)/len(unit))+"]}}\n" }
	in := map[string]string{
		"flow list": fill("1,"), "flow strings": fill("a,"), "nested flow":header+"a: "+strings.Repeat("[",10000), "nested full":header+"a: "+strings.Repeat("[",1000000),
		"nested map":header+"a: "+strings.Repeat("{a: ",10000), "block nested": header+"a:\n"+strings.Repeat("- ",500000)+"\n",
		"nested block": func() string { var b strings.Builder; b.WriteString(header); for i:=0;i<1400;i++ { b.WriteString(strings.Repeat(" ",i)+"a:\n") }; return b.String() }(),
		"keys": header+func() string { var b strings.Builder; for i:=0; b.Len()<1000000; i++ { fmt.Fprintf(&b,"k%d: 1\n", i) }; return b.String() }(),
		"dup keys": header+strings.Repeat("a: 1\n", 200000),
		"gates": header+"featureGates:\n"+func() string { var b strings.Builder; for i:=0; b.Len()<1000000; i++ { fmt.Fprintf(&b,"  K%d: true\n", i) }; return b.String() }(),
		"mapping": header+"metrics:\n  allowListMapping:\n"+func() string { var b strings.Builder; for i:=0; b.Len()<1000000; i++ { fmt.Fprintf(&b,"    m%d,l: v\n", i) }; return b.String() }(),
		"groups": header+"leaderElection:\n  groups:\n"+func() string { var b strings.Builder; for i:=0; b.Len()<1000000; i++ { fmt.Fprintf(&b,"  - {name: g%d, controllers: [job-controller]}\n", i) }; return b.String() }(),
		"group names": header+"leaderElection: {groups: [{name: a, controllers: ["+strings.Repeat("job-controller,", 60000)+"]}]}\n",
		"uniq": header+"networking: {clusterCIDRs: ["+func() string { var b strings.Builder; for i:=0; b.Len()<1000000; i++ { fmt.Fprintf(&b,"a%d,", i) }; return b.String() }()+"]}\n",
		"uniqcurve": header+"serving: {tls: {curvePreferences: ["+func() string { var b strings.Builder; for i:=0; b.Len()<1000000; i++ { fmt.Fprintf(&b,"a%d,", i) }; return b.String() }()+"]}}\n",
		"sni": header+"serving: {tls: {sniCertificates: [{certFile: a, privateKeyFile: b, names: ["+func() string { var b strings.Builder; for i:=0; b.Len()<1000000; i++ { fmt.Fprintf(&b,"a%d,", i) }; return b.String() }()+"]}]}}\n",
		"disabled": header+"metrics: {disabledMetrics: ["+strings.Repeat("a,",200000)+"], allowListMapping: {"+func() string { var b strings.Builder; for i:=0; b.Len()<500000; i++ { fmt.Fprintf(&b,"\"b%d,l\": v, ", i) }; return b.String() }()+"}}\n",
		"bomb": header+"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n",
		"anchors": header+func() string { var b strings.Builder; for i:=0; b.Len()<1000000; i++ { fmt.Fprintf(&b,"k%d: &a%d 1\n", i,i) }; return b.String() }(),
		"aliases": header+"resync: &r {minPeriod: 1h}\n"+func() string { var b strings.Builder; for i:=0; b.Len()<1000000; i++ { fmt.Fprintf(&b,"k%d: *r\n", i) }; return b.String() }(),
		"merges": header+"resync: &r {minPeriod: 1h}\nx: {"+strings.Repeat("<<: *r, ", 100000)+"}\n",
		"quotes": header+"a: \""+strings.Repeat("\\n",500000)+"\"\n",
		"comment": header+strings.Repeat("#\n", 500000),
		"tags": header+"a: ["+strings.Repeat("!!a b,", 150000)+"]\n",
		"questions": header+strings.Repeat("? ", 500000),
		"colons": header+strings.Repeat("a: ", 300000),
		"docs": header+strings.Repeat("---\n", 200000),
		"longkey": header+strings.Repeat("a", 1000000)+": 1\n",
		"vmodule": header+"logging: {vmodule: ["+strings.Repeat("{filePattern: a, verbosity: 1},", 30000)+"]}\n",
		"accept": header+"clientConnection: {acceptContentTypes: '"+strings.Repeat("a/b,", 200000)+"'}\n",
		"leaders": header+"leaderMigration:\n  enabled: true\n  controllerLeaders:\n"+strings.Repeat("  - {name: job-controller, component: a}\n", 20000)+"leaderElection:\n  groups:\n"+strings.Repeat("  - {name: a}\n", 12000),
	}
	for name, text := range in {
		runtime.GC(); var a, b runtime.MemStats; runtime.ReadMemStats(&a)
		start := time.Now()
		_, err := Load("f.yaml", []byte(text))
		d := time.Since(start)
		runtime.ReadMemStats(&b)
		m := ""
		if err != nil { m = err.Error(); if len(m) > 100 { m = m[:100] } }
		fmt.Printf("%-14s %8d bytes %8s alloc %4d MiB  %s\n", name, len(text), d.Round(time.Millisecond), (b.TotalAlloc-a.TotalAlloc)>>20, strings.ReplaceAll(m,"\n"," | "))
	}
}
