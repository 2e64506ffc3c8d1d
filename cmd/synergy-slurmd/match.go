package main

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/directive"
)

// mostRules bounds the list of match: a job without a directive is compared with all rules when it is first seen.
const mostRules = 1000

// matchRules reads match: a list of rules, each with patterns and the profile of the jobs that match them.
func matchRules(c *Config, value *yaml.Node) error {
	if value.Kind != yaml.SequenceNode || len(value.Content) == 0 || len(value.Content) > mostRules {
		return fmt.Errorf("want a list of 1 to %d rules, as [{user: ann, profile: res50.json}]", mostRules)
	}
	list := make([]bridge.Match, len(value.Content))
	var problems []error
	understood := true // of the rule before
	for i, item := range value.Content {
		rule, err := readRule(item)
		if err == nil && i > 0 && understood && list[i-1].MatchesAll() {
			err = errors.New("no job comes to this rule: the one before it, without user, account, partition, " +
				"job_name and container, fits all: put it last")
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("rule %d, line %d: %w", i+1, item.Line, err))
		}
		list[i], understood = rule, err == nil
	}
	c.Match = list
	return errors.Join(problems...)
}

// readRule reads one rule.
func readRule(item *yaml.Node) (rule bridge.Match, err error) {
	if item.Kind != yaml.MappingNode {
		return rule, errors.New("want keys with values, as {user: ann, profile: res50.json}")
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(item.Content); i += 2 {
		name := item.Content[i].Value
		if seen[name] {
			return rule, fmt.Errorf("%s: is there twice: remove one", name)
		}
		seen[name] = true
		text, err := scalar(item.Content[i+1])
		if err == nil {
			err = setRule(&rule, name, text)
		}
		if err != nil {
			return rule, fmt.Errorf("%s: %w", name, err)
		}
	}
	if !seen["profile"] {
		return rule, errors.New("profile: is missing: name the file of one, as res50.json, or auto")
	}
	return rule, nil
}

// setRule sets one key of a rule.
func setRule(rule *bridge.Match, name, text string) error {
	switch name {
	case "user":
		return setPattern(&rule.User, text)
	case "account":
		return setPattern(&rule.Account, text)
	case "partition":
		return setPattern(&rule.Partition, text)
	case "job_name":
		return setPattern(&rule.Name, text)
	case "container":
		return setPattern(&rule.Container, text)
	case "profile":
		// The text must be what a job may write, and all of it the name: a space would begin another directive.
		says := directive.Parse("synergy-profile=" + text)
		if says.Err() != nil || !says.Auto && says.Profile != text {
			return fmt.Errorf("%q: want the name of a profile's file, as res50.json, or auto", text)
		}
		rule.Profile = says.Profile
	case "checkpoint":
		if text != "true" && text != "false" {
			return fmt.Errorf("%q: want true or false", text)
		}
		rule.Saves = text == "true"
	default:
		return errors.New("unknown key: want one of user, account, partition, job_name, container, " +
			"profile, checkpoint")
	}
	return nil
}

// setPattern takes a text in which * stands for any text; other characters stand for themselves. Characters of other
// notations for patterns are refused, since they would stand for themselves unnoticed.
func setPattern(field *string, text string) error {
	if strings.ContainsAny(text, "?[]|,") {
		return fmt.Errorf("%q: only * stands for any text: write a rule for each of several", text)
	}
	*field = text
	return nil
}
