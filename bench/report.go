package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

type measurement struct {
	Engine string    `json:"engine"`
	Values []float64 `json:"values"`
	Median float64   `json:"median"`
	Note   string    `json:"note,omitempty"`
	Failed string    `json:"failed,omitempty"`
}

type workload struct {
	Name           string         `json:"name"`
	Unit           string         `json:"unit"`
	HigherIsBetter bool           `json:"higher_is_better"`
	Measurements   []*measurement `json:"measurements"`
}

type engineInfo struct {
	Name     string `json:"name"`
	Version  string `json:"version"`
	Settings string `json:"settings"`
}

type results struct {
	Date       string       `json:"date"`
	Machine    string       `json:"machine"`
	Quick      bool         `json:"quick"`
	Rounds     int          `json:"rounds"`
	LeanRounds int          `json:"lean_rounds"`
	Engines    []engineInfo `json:"engines"`
	Workloads  []*workload  `json:"workloads"`
}

func newResults(o options) *results {
	return &results{Date: time.Now().Format("2006-01-02 15:04"), Machine: machine(), Quick: o.quick, Rounds: o.rounds, LeanRounds: o.leanRounds}
}

// machine describes the processor, cores, memory and kernel in a line.
func machine() string {
	cpu := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
				cpu = strings.TrimSpace(value)
				break
			}
		}
	}
	memory := ""
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		if fields := strings.Fields(string(text)); len(fields) > 1 {
			memory = fmt.Sprintf(", %.0f GiB memory", float64(number(fields[1]))/(1<<20))
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return fmt.Sprintf("%s, %d cores%s, Linux %s", cpu, runtime.NumCPU(), memory, strings.TrimSpace(string(kernel)))
}

func (r *results) workload(name string) *workload {
	for _, w := range r.Workloads {
		if w.Name == name {
			return w
		}
	}
	w := &workload{Name: name}
	r.Workloads = append(r.Workloads, w)
	return w
}

func (w *workload) measurement(engine string) *measurement {
	for _, m := range w.Measurements {
		if m.Engine == engine {
			return m
		}
	}
	m := &measurement{Engine: engine}
	w.Measurements = append(w.Measurements, m)
	return m
}

func (r *results) add(name, engine, unit string, higherIsBetter bool, value float64, note string) {
	w := r.workload(name)
	w.Unit, w.HigherIsBetter = unit, higherIsBetter
	m := w.measurement(engine)
	m.Values = append(m.Values, value)
	m.Median = median(m.Values)
	m.Note = note
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2
	}
	return sorted[middle]
}

func (r *results) fail(name, engine string, err error) {
	r.workload(name).measurement(engine).Failed = err.Error()
}

func (m *measurement) usable() bool {
	return m.Failed == "" && len(m.Values) > 0 && !strings.HasPrefix(m.Note, "NOT FINISHED")
}

// ratio says how many times better Daruma is than a peer: the median over the rounds, so that a machine whose speed changes
// between rounds does not decide.
func (w *workload) ratio(peer string) string {
	own, other := w.measurement("daruma"), w.measurement(peer)
	if !own.usable() || !other.usable() {
		return "-"
	}
	var ratios []float64
	for round := range min(len(own.Values), len(other.Values)) {
		better, worse := own.Values[round], other.Values[round]
		if !w.HigherIsBetter {
			better, worse = worse, better
		}
		if worse > 0 {
			ratios = append(ratios, better/worse)
		}
	}
	if len(ratios) == 0 {
		return "-"
	}
	text := fmt.Sprintf("%.2f", median(ratios))
	if len(ratios) > 3 {
		text += fmt.Sprintf(" [%.2f-%.2f]", slices.Min(ratios), slices.Max(ratios))
	}
	return text
}

func figure(value float64) string {
	switch {
	case value >= 1000:
		return fmt.Sprintf("%.0f", value)
	case value >= 10:
		return fmt.Sprintf("%.1f", value)
	default:
		return fmt.Sprintf("%.3f", value)
	}
}

func (m *measurement) cell() string {
	if m.Failed != "" {
		return "failed"
	}
	if len(m.Values) == 0 {
		return "-"
	}
	if !m.usable() {
		return "> " + figure(m.Median) + " (not finished)"
	}
	text := figure(m.Median)
	if len(m.Values) > 1 {
		text += fmt.Sprintf(" [%s-%s]", figure(slices.Min(m.Values)), figure(slices.Max(m.Values)))
	}
	return text
}

func (r *results) markdown() string {
	var text strings.Builder
	mode := "full"
	if r.Quick {
		mode = "quick"
	}
	fmt.Fprintf(&text, "# Benchmark of %s\n\n%s; %s run, %d rounds (lean and loop %d), the engines taking turns; median [min-max].\n", r.Date, r.Machine, mode, r.Rounds, r.LeanRounds)
	text.WriteString("Servers over loopback TCP without TLS, SQLite in process. The columns with x say how many times better Daruma is than that peer in the same round.\n\n")
	var peers []string
	for _, e := range r.Engines {
		if e.Name != "daruma" {
			peers = append(peers, e.Name)
		}
	}
	text.WriteString("| workload | unit |")
	for _, e := range r.Engines {
		fmt.Fprintf(&text, " %s |", e.Name)
	}
	for _, peer := range peers {
		fmt.Fprintf(&text, " x %s |", peer)
	}
	text.WriteString("\n|---|---|" + strings.Repeat("---:|", len(r.Engines)+len(peers)) + "\n")
	for _, w := range r.Workloads {
		fmt.Fprintf(&text, "| %s | %s |", w.Name, w.Unit)
		for _, e := range r.Engines {
			fmt.Fprintf(&text, " %s |", w.measurement(e.Name).cell())
		}
		for _, peer := range peers {
			fmt.Fprintf(&text, " %s |", w.ratio(peer))
		}
		text.WriteString("\n")
	}
	text.WriteString("\n")
	for _, e := range r.Engines {
		fmt.Fprintf(&text, "* %s: %s; %s\n", e.Name, e.Version, e.Settings)
	}
	text.WriteString("\nRemarks of the last round:\n\n")
	for _, w := range r.Workloads {
		for _, m := range w.Measurements {
			if m.Failed != "" {
				fmt.Fprintf(&text, "* %s, %s: FAILED: %s\n", w.Name, m.Engine, m.Failed)
			} else if m.Note != "" {
				fmt.Fprintf(&text, "* %s, %s: %s\n", w.Name, m.Engine, m.Note)
			}
		}
	}
	return text.String()
}

// failed names what could not be measured.
func (r *results) failed() []string {
	var names []string
	for _, w := range r.Workloads {
		for _, m := range w.Measurements {
			if m.Failed != "" {
				names = append(names, w.Name+" of "+m.Engine)
			}
		}
	}
	return names
}

func (r *results) write(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	encoded, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "results.json"), append(encoded, '\n'), 0o644); err != nil {
		return err
	}
	text := r.markdown()
	fmt.Print("\n", text)
	return os.WriteFile(filepath.Join(folder, "results.md"), []byte(text), 0o644)
}
