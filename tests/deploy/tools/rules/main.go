// Command rules checks Prometheus' rules and expressions with Prometheus' own code.
//
//	rules parse                 expressions, one JSON text per line on standard input; prints the metrics each names
//	rules test FILE             alert tests in the format of `promtool test rules`
//	rules config FILE           a configuration, by the rules of a server's start
//
// It holds nothing that promtool does not do; promtool itself brings the clients of every cloud there is and takes
// minutes to build.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	_ "github.com/prometheus/prometheus/discovery/dns" // for the configuration of compose
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"gopkg.in/yaml.v3"
)

func main() {
	var err error
	switch {
	case len(os.Args) == 2 && os.Args[1] == "parse":
		err = parse()
	case len(os.Args) == 3 && os.Args[1] == "test":
		err = test(os.Args[2])
	case len(os.Args) == 3 && os.Args[1] == "config":
		_, err = config.LoadFile(os.Args[2], false, slog.New(slog.DiscardHandler))
	default:
		err = errors.New("usage: rules parse | rules test FILE | rules config FILE")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// parse answers every expression with the names of its metrics, in its order.
func parse() error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var text string
		if err := json.Unmarshal(lines.Bytes(), &text); err != nil {
			return err
		}
		expression, err := parser.ParseExpr(text)
		if err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		names := []string{}
		for _, selector := range parser.ExtractSelectors(expression) {
			for _, matcher := range selector {
				if matcher.Name == labels.MetricName {
					names = append(names, matcher.Value)
				}
			}
		}
		answer, err := json.Marshal(names)
		if err != nil {
			return err
		}
		fmt.Println(string(answer))
	}
	return lines.Err()
}

type suite struct {
	RuleFiles          []string       `yaml:"rule_files"`
	EvaluationInterval model.Duration `yaml:"evaluation_interval"`
	Tests              []group        `yaml:"tests"`
}

type group struct {
	Name        string         `yaml:"name"`
	Interval    model.Duration `yaml:"interval"`
	InputSeries []struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	} `yaml:"input_series"`
	AlertRuleTests []alertTest `yaml:"alert_rule_test"`
}

type alertTest struct {
	EvalTime  model.Duration `yaml:"eval_time"`
	Alertname string         `yaml:"alertname"`
	ExpAlerts []struct {
		ExpLabels      map[string]string `yaml:"exp_labels"`
		ExpAnnotations map[string]string `yaml:"exp_annotations"`
	} `yaml:"exp_alerts"`
}

// alert is one that fires, as far as tests look at it.
type alert struct {
	Labels, Annotations map[string]string
}

func test(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var all suite
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	decoder.KnownFields(true)
	if err := decoder.Decode(&all); err != nil {
		return err
	}
	known := map[string]bool{}
	for number, file := range all.RuleFiles {
		file = filepath.Join(filepath.Dir(path), file)
		all.RuleFiles[number] = file
		groups, errs := rulefmt.ParseFile(file, false)
		if len(errs) > 0 {
			return fmt.Errorf("%s: %w", file, errors.Join(errs...))
		}
		for _, group := range groups.Groups {
			for _, rule := range group.Rules {
				known[rule.Alert] = false
			}
		}
	}
	var faults []error
	for _, group := range all.Tests {
		for _, test := range group.AlertRuleTests {
			if _, there := known[test.Alertname]; !there {
				return fmt.Errorf("%s: no alert %q", group.Name, test.Alertname)
			}
			known[test.Alertname] = known[test.Alertname] || len(test.ExpAlerts) > 0
		}
		if err := group.run(time.Duration(all.EvaluationInterval), all.RuleFiles); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", group.Name, err))
		}
	}
	for name, fires := range known {
		if !fires {
			faults = append(faults, fmt.Errorf("no test in which %s fires", name))
		}
	}
	return errors.Join(faults...)
}

func (g *group) run(interval time.Duration, files []string) error {
	load := fmt.Sprintf("load %v\n", g.Interval)
	for _, series := range g.InputSeries {
		load += fmt.Sprintf("  %s %s\n", series.Series, series.Values)
	}
	loader, err := promqltest.NewLazyLoader(load, promqltest.LazyLoaderOpts{})
	if err != nil {
		return err
	}
	defer loader.Close()
	loader.SubqueryInterval = interval
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc:  rules.EngineQueryFunc(loader.QueryEngine(), loader.Storage()),
		Appendable: loader.Storage(),
		Context:    context.Background(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
		Logger:     slog.New(slog.DiscardHandler),
	})
	groups, errs := manager.LoadGroups(interval, labels.EmptyLabels(), "", nil, false, files...)
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	tests := g.AlertRuleTests
	sort.SliceStable(tests, func(a, b int) bool { return tests[a].EvalTime < tests[b].EvalTime })
	start := time.Unix(0, 0).UTC()
	for at := start; len(tests) > 0; at = at.Add(interval) {
		var fault error
		loader.WithSamplesTill(at, func(err error) {
			if err != nil {
				fault = err
				return
			}
			for _, group := range groups {
				group.Eval(context.Background(), at)
				for _, rule := range group.Rules() {
					if err := rule.LastError(); err != nil && !errors.Is(err, storage.ErrDuplicateSampleForTimestamp) {
						fault = fmt.Errorf("%s at %v: %w", rule.Name(), at.Sub(start), err)
					}
				}
			}
		})
		if fault != nil {
			return fault
		}
		for len(tests) > 0 && at.Sub(start) >= time.Duration(tests[0].EvalTime) {
			if err := tests[0].compare(groups); err != nil {
				return err
			}
			tests = tests[1:]
		}
	}
	return nil
}

// compare looks at what fires now.
func (t *alertTest) compare(groups map[string]*rules.Group) error {
	fires := []alert{}
	for _, group := range groups {
		for _, rule := range group.AlertingRules() {
			if rule.Name() != t.Alertname {
				continue
			}
			for _, active := range rule.ActiveAlerts() {
				if active.State == rules.StateFiring {
					fires = append(fires, alert{active.Labels.Map(), active.Annotations.Map()})
				}
			}
		}
	}
	expected := []alert{}
	for _, one := range t.ExpAlerts {
		one.ExpLabels["alertname"] = t.Alertname
		expected = append(expected, alert{one.ExpLabels, one.ExpAnnotations})
	}
	order := func(alerts []alert) {
		sort.Slice(alerts, func(a, b int) bool {
			return fmt.Sprint(alerts[a].Labels) < fmt.Sprint(alerts[b].Labels)
		})
	}
	order(fires)
	order(expected)
	if !reflect.DeepEqual(fires, expected) {
		return fmt.Errorf("%s at %v:\n  expected %v\n  fires    %v", t.Alertname, t.EvalTime, expected, fires)
	}
	return nil
}
