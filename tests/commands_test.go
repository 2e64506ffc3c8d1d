package tests

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/directive"
)

// command is a line of a shell in the documentation.
type command struct {
	page string
	line int
	text string   // without prompt, comment and sudo
	args []string // its words up to the first |, ; or >; the program first
	span bool     // it stands in a sentence
}

func (c command) String() string { return fmt.Sprintf("%s:%d: %s", c.page, c.line, c.text) }

// shells are the programs whose lines are commands in a block that does not say its language. A line with a prompt is
// one whatever it begins with.
var shells = map[string]bool{}

func init() {
	for name := range strings.FieldsSeq(`synergy synergy-slurmd synergy-broker deft prove-failing-open make sbatch srun salloc squeue
		sinfo scontrol
		scancel sacct sacctmgr sprio sstat systemctl journalctl go python python3 pip curl apt apt-get dnf rpm dpkg useradd ln cp mv
		rm mkdir install echo cat tee tar sh bash sed grep jq ssh docker git cd export promtool getent chown chmod slurmd source`) {
		shells[name] = true
	}
}

var (
	prompt     = regexp.MustCompile(`^(?:\$|[\w-]+@[\w-]+:\S*\$) +`)
	assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
)

// mentioned are the programs whose lines are looked at in sentences, too.
var mentioned = []string{"synergy", "synergy-slurmd", "deft", "make", "sbatch", "systemctl"}

// documented is every command of every page, and those that stand in sentences.
func documented(t testing.TB) []command {
	t.Helper()
	var all []command
	for _, page := range ours(t).Pages {
		if page.Path == "CHANGELOG.md" {
			continue // it speaks of what was
		}
		for _, block := range page.Blocks {
			all = append(all, commandsOf(page.Path, block)...)
		}
		for _, span := range page.Spans {
			c := newCommand(page.Path, span.Line, span.Text)
			if len(c.args) > 1 && span.Text != "make room" && slices.Contains(mentioned, c.program()) {
				c.span = true
				all = append(all, c)
			}
		}
	}
	return all
}

// commandsOf are those of a block: each line of one that says bash, and else each that begins with a known program.
func commandsOf(page string, block codeBlock) []command {
	bash := block.Language == "bash" || block.Language == "sh"
	if block.Language != "" && !bash {
		return nil
	}
	var all []command
	for i := 0; i < len(block.Lines); i++ {
		at, line := block.Line+i, strings.TrimSpace(block.Lines[i])
		for strings.HasSuffix(line, `\`) && i+1 < len(block.Lines) {
			i++
			line = strings.TrimSuffix(line, `\`) + strings.TrimSpace(block.Lines[i])
		}
		asked := prompt.MatchString(line)
		c := newCommand(page, at, prompt.ReplaceAllString(line, ""))
		directive := bash && strings.HasPrefix(line, "#SBATCH ")
		if directive {
			c.text, c.args = line, split(strings.TrimPrefix(line, "#"))
		}
		if len(c.args) > 0 && (bash || asked || shells[c.program()] || strings.Contains(c.args[0], "/cluster.sh")) {
			all = append(all, c)
		}
	}
	return all
}

func newCommand(page string, line int, text string) command {
	c := command{page: page, line: line, text: uncommented(strings.TrimSpace(text))}
	if rest, is := strings.CutPrefix(c.text, "sudo "); is {
		c.text = regexp.MustCompile(`^-u \w+ `).ReplaceAllString(strings.TrimSpace(rest), "")
	}
	c.args = split(c.text)
	for len(c.args) > 0 && (assignment.MatchString(c.args[0]) || c.args[0] == "exec") {
		c.args = c.args[1:]
	}
	return c
}

// program is what the command starts; srun and exec before one of ours are not counted.
func (c command) program() string {
	if len(c.args) == 0 {
		return ""
	}
	if len(c.args) > 2 && c.args[0] == "srun" && c.args[1] == "synergy" {
		return "synergy"
	}
	return filepath.Base(c.args[0])
}

// split cuts a line into words as a shell does, up to the first character that ends a command. What a shell would
// expand stays as it is.
func split(line string) []string {
	var words []string
	var word strings.Builder
	var quote rune
	begun, escaped := false, false
	end := func() {
		if begun {
			words = append(words, word.String())
		}
		word.Reset()
		begun = false
	}
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, begun = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case r == ' ' || r == '\t':
			end()
		case strings.ContainsRune("|;&<>", r):
			end()
			return words
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	end()
	return words
}

// uncommented is a line without what stands behind a # that begins a word outside of quotes.
func uncommented(line string) string {
	var quote rune
	before := ' '
	for i, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
		case r == '\'' || r == '"':
			quote = r
		case r == '#' && (before == ' ' || before == '\t'):
			return strings.TrimSpace(line[:i])
		}
		before = r
	}
	return strings.TrimSpace(line)
}

func TestALineOfAPageIsReadAsAShellReadsIt(t *testing.T) {
	for _, c := range []struct{ line, text, args string }{
		{"$ sudo -u synergy synergy-slurmd --check   # look", "synergy-slurmd --check", "synergy-slurmd,--check"},
		{"alice@login:~$ sbatch --comment=\"a #b\" 'x y'|cat", `sbatch --comment="a #b" 'x y'|cat`,
			"sbatch,--comment=a #b,x y"},
		{"A=b exec synergy run -- python train.py", "A=b exec synergy run -- python train.py",
			"synergy,run,--,python,train.py"},
		{`make x \`, "make x y", "make,x,y"},
		{`echo "it's" >>f`, `echo "it's" >>f`, "echo,it's"},
		{"job 17 runs on n3", "", ""},
	} {
		got := commandsOf("x.md", codeBlock{Lines: []string{c.line, "    y"}, Line: 7})
		if c.text == "" {
			if len(got) > 0 {
				t.Errorf("%q is taken for %v", c.line, got)
			}
			continue
		}
		if len(got) != 1 || got[0].text != c.text || strings.Join(got[0].args, ",") != c.args || got[0].line != 7 {
			t.Errorf("%q is read as %q", c.line, got)
		}
	}
}

// TestEveryCommandOfTheDocumentationIsOneThatThereIs: each command of ours parses, with each of its options; each
// target and variable of make, each unit, each file of this repository and each directive is there.
func TestEveryCommandOfTheDocumentationIsOneThatThereIs(t *testing.T) {
	ours, house := programsOf(t), houseOf(t)
	counts := map[string]int{}
	for _, c := range documented(t) {
		counts[c.program()]++
		if err := errors.Join(ours.parse(c), house.look(c), directives(c)); err != nil {
			t.Errorf("%s: %v", c, err)
		}
	}
	if counts["synergy"] < 40 || counts["synergy-slurmd"] < 10 || counts["make"] < 30 || counts["sbatch"] < 8 {
		t.Errorf("only %v were looked at: the pages were not understood", counts)
	}
}

// house is what a command may name of this repository.
type house struct {
	targets   map[string]bool
	makefiles string
}

func houseOf(t *testing.T) house {
	t.Helper()
	h := house{targets: map[string]bool{}}
	files, _ := filepath.Glob("../mk/*.mk")
	for _, file := range append(files, "../Makefile") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		h.makefiles += string(text)
		for _, m := range regexp.MustCompile(`(?m)^([a-z][a-z-]*):.*##`).FindAllStringSubmatch(string(text), -1) {
			h.targets[m[1]] = true
		}
	}
	return h
}

// folders are those of the repository that commands name; elsewhere is what a package makes of them on a site.
var folders = regexp.MustCompile(`^(?:\./)?(etc|docs|contrib|python|tests|packaging|spank|bridge|policy|sim)(/|$)`)

func (h house) look(c command) error {
	for _, word := range c.args[1:] {
		if assignment.MatchString(word) && c.program() == "make" {
			if name, _, _ := strings.Cut(word, "="); !strings.Contains(h.makefiles, "$("+name) &&
				!strings.Contains(h.makefiles, name+" ?=") {
				return fmt.Errorf("no makefile has a variable %s", name)
			}
			continue
		}
		if c.program() == "make" && !strings.HasPrefix(word, "-") && !h.targets[word] {
			return fmt.Errorf("make help lists no %s", word)
		}
		if folders.MatchString(word) && word != "contrib/plugins/mine" && word != "./contrib/plugins/mine" &&
			c.program() != "go" {
			if found, _ := filepath.Glob("../" + word); len(found) == 0 {
				return fmt.Errorf("there is no %s", word)
			}
		}
		if (c.program() == "systemctl" || c.program() == "journalctl") && strings.HasPrefix(word, "synergy") {
			if !isFile("../etc/"+word) && !isFile("../etc/"+word+".service") {
				return fmt.Errorf("etc has no unit %s", word)
			}
		}
	}
	return nil
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// directives are read by the daemon's own parser, in a comment or as the plugin's options, which make a comment.
func directives(c command) error {
	var comments, options []string
	for _, word := range c.args {
		if comment, is := strings.CutPrefix(word, "--comment="); is && strings.Contains(comment, "synergy-") {
			comments = append(comments, comment)
		}
		if option, is := strings.CutPrefix(word, "--synergy-"); is && !strings.Contains(word, "…") {
			options = append(options, "synergy-"+option)
		}
	}
	if len(options) > 0 {
		comments = append(comments, strings.Join(options, " "))
	}
	for _, comment := range comments {
		if strings.Contains(comment, "…") {
			continue
		}
		says := directive.Parse(comment)
		if err := says.Err(); err != nil {
			return err
		}
		if !says.Managed {
			return fmt.Errorf("%q opts nobody in: want synergy-profile=NAME.json or synergy-profile=auto", comment)
		}
	}
	return nil
}

// TestEveryFileThatThePagesNameIsThere looks at code in sentences that reads as a path of this repository.
func TestEveryFileThatThePagesNameIsThere(t *testing.T) {
	path := regexp.MustCompile(`^(etc|docs|contrib|tests|packaging|python|spank|bridge|policy|sim|cmd|mk|gres|ledger|` +
		`sensitivity|limits|savings|page|story|profiling|launcher|emulate|guest|preflight)/[\w./*-]+$`)
	looked := 0
	for _, page := range ours(t).Pages {
		for _, span := range page.Spans {
			if !path.MatchString(span.Text) || slices.Contains(ofReaders, span.Text) || tres.MatchString(span.Text) {
				continue
			}
			looked++
			if found, _ := filepath.Glob("../" + span.Text); len(found) == 0 {
				t.Errorf("%s:%d: there is no %s", page.Path, span.Line, span.Text)
			}
		}
	}
	if looked < 60 {
		t.Errorf("%d files were looked at: the pages were not understood", looked)
	}
}

// ofReaders are files that a reader makes.
var ofReaders = []string{"contrib/plugins/mine/main.go"}

// tres are words of Slurm's that read as paths.
var tres = regexp.MustCompile(`^gres/(gpu|shard|mps)$`)
