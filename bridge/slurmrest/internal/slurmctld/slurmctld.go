package slurmctld

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
)

// Speak adds the calls of this package to an API for a slurmrestd address. Jobs are read by the requests of the version
// jobs, which may be older than api's own.
func Speak(api wire.API, server, jobs string) wire.API {
	s := speaker{here: Address(server, api.Name), jobsAt: Address(server, jobs)}
	api.Ping, api.Time, api.States, api.Jobs, api.Job = s.ping, s.time, s.states, s.jobs, s.job
	api.Nodes, api.Reservations = s.nodes, s.reservations
	api.Update, api.Submit, api.Signal, api.Requeue = s.update, s.submit, s.signal, s.requeue
	api.Complaint = complaint
	return api
}

// Address is where the requests of a version go.
func Address(server, version string) string { return server + "/slurm/" + version + "/" }

// speaker makes the calls, at these addresses with a version behind them.
type speaker struct{ here, jobsAt string }

// Call is a call whose answer is decoded as A, the generated type, and converted by told to the type that belongs to no
// version; told also returns the answer's errors and warnings. err is that of making the request.
func Call[A, T any](path string, request *http.Request, err error, told func(*A) (T, []Error, []Warning)) wire.Call[T] {
	return wire.Call[T]{Path: path, Request: request, Err: err, Read: func(body []byte) (T, wire.Complaint, error) {
		var answer A
		if err := json.Unmarshal(body, &answer); err != nil {
			var none T
			return none, wire.Complaint{}, err
		}
		value, errors, warnings := told(&answer)
		return value, complains(errors, warnings), nil
	}}
}

// convertAll converts every item of a list with read. The result is never nil.
func convertAll[A, T any](list []A, read func(*A) T) []T {
	all := make([]T, len(list))
	for i := range list {
		all[i] = read(&list[i])
	}
	return all
}

// complains converts the errors and warnings of an answer.
func complains(errors []Error, warnings []Warning) wire.Complaint {
	return wire.Complaint{
		Errors: convertAll(errors, func(e *Error) wire.Error {
			return wire.Error{Number: int(e.ErrorNumber), Text: e.Error, Description: e.Description}
		}),
		Warnings: convertAll(warnings, func(w *Warning) string { return w.Description }),
	}
}

// complaint decodes the errors and warnings of an unsuccessful answer, whatever was asked. JobPostResponse is used
// because it has nothing else.
func complaint(body []byte) (wire.Complaint, error) {
	var said JobPostResponse
	err := json.Unmarshal(body, &said)
	return complains(said.Errors, said.Warnings), err
}

// ping asks which controllers answer.
func (s speaker) ping() wire.Call[[]wire.Controller] {
	request, err := NewPingRequest(s.here)
	return Call("/ping/", request, err, func(a *PingArrayResp) ([]wire.Controller, []Error, []Warning) {
		return convertAll(a.Pings, func(p *ControllerPing) wire.Controller {
			return wire.Controller{Answers: p.Responding}
		}), a.Errors, a.Warnings
	})
}

// time asks for slurmctld's time in seconds. It is 0, which means not told, where the answer cannot be decoded: the
// client then goes by the clock of its host.
func (s speaker) time() wire.Call[int64] {
	request, err := NewGetDiagRequest(s.here)
	return wire.Call[int64]{Path: "/diag/", Request: request, Err: err,
		Read: func(body []byte) (int64, wire.Complaint, error) {
			var answer DiagResp
			if json.Unmarshal(body, &answer) != nil {
				return 0, wire.Complaint{}, nil
			}
			return int64(number(answer.Statistics.ReqTime).Count()), complains(answer.Errors, answer.Warnings), nil
		}}
}

// states lists the states of all jobs, without anything else of them: 80 bytes a job, so it can be asked every second.
func (s speaker) states() wire.Call[[]wire.State] {
	request, err := NewGetJobStatesRequest(s.here)
	return Call("/jobs/state/", request, err, func(a *JobStatesResp) ([]wire.State, []Error, []Warning) {
		return convertAll(a.Jobs, func(j *JobStateOf) wire.State { return wire.State{Job: j.JobId, Words: j.State} }),
			a.Errors, a.Warnings
	})
}

// jobs lists all jobs. It is the one answer that is decoded as it arrives, since it may have hundreds of megabytes.
func (s speaker) jobs() wire.Call[[]wire.Job] {
	request, err := NewGetJobsRequest(s.jobsAt)
	return wire.Call[[]wire.Job]{Path: "/jobs/", Request: request, Err: err,
		Stream: func(body io.Reader) ([]wire.Job, wire.Complaint, error) {
			var said struct {
				Errors   []Error   `json:"errors"`
				Warnings []Warning `json:"warnings"`
			}
			jobs, err := wire.List(body, "jobs", job, &said)
			return jobs, complains(said.Errors, said.Warnings), err
		}}
}

func (s speaker) job(id int) wire.Call[[]wire.Job] {
	request, err := NewGetJobRequest(s.jobsAt, strconv.Itoa(id))
	return Call("/job/{job_id}", request, err, listing)
}

func listing(a *JobInfoResp) ([]wire.Job, []Error, []Warning) {
	return convertAll(a.Jobs, job), a.Errors, a.Warnings
}

// nodes lists all nodes.
func (s speaker) nodes() wire.Call[[]wire.Node] {
	request, err := NewGetNodesRequest(s.here)
	return Call("/nodes/", request, err, func(a *NodesResp) ([]wire.Node, []Error, []Warning) {
		return convertAll(a.Nodes, node), a.Errors, a.Warnings
	})
}

// reservations lists all reservations, also future ones.
func (s speaker) reservations() wire.Call[[]wire.Reservation] {
	request, err := NewGetReservationsRequest(s.here)
	return Call("/reservations/", request, err, func(a *ReservationResp) ([]wire.Reservation, []Error, []Warning) {
		return convertAll(a.Reservations, func(r *ReservationInfo) wire.Reservation {
			return wire.Reservation{Name: r.Name, From: number(r.StartTime), To: number(r.EndTime), Nodes: r.NodeList}
		}), a.Errors, a.Warnings
	})
}

// update changes the fields of a job that change names.
func (s speaker) update(id int, change wire.Change) wire.Call[wire.Done] {
	text, err := wire.JSON(description(change))
	if err != nil {
		return wire.Call[wire.Done]{Err: err}
	}
	request, err := NewUpdateJobRequestWithBody(s.here, strconv.Itoa(id), "application/json", text)
	return Call("/job/{job_id}", request, err, func(a *JobPostResponse) (wire.Done, []Error, []Warning) {
		return wire.Done{}, a.Errors, a.Warnings
	})
}

// submit submits a batch job; its answer is the job's ID, 0 if slurmrestd does not tell one.
func (s speaker) submit(job wire.Submission) wire.Call[int] {
	text, err := wire.JSON(submission(job))
	if err != nil {
		return wire.Call[int]{Err: err}
	}
	request, err := NewSubmitJobRequestWithBody(s.here, "application/json", text)
	return Call("/job/submit", request, err, func(a *JobSubmitResponse) (int, []Error, []Warning) {
		return int(a.JobId), a.Errors, a.Warnings
	})
}

// flags are the flags of a signal for the processes that it is to reach. Without a flag it reaches all.
var flags = map[wire.Target]*string{wire.Script: text("BATCH_JOB"), wire.Steps: text("FULL_STEPS_ONLY"), wire.All: nil}

// signal sends a signal to some processes of a job. The answer has an outcome for each job, which may be a refusal
// although there is no error.
func (s speaker) signal(job, signal string, to wire.Target) wire.Call[[]wire.Error] {
	request, err := NewSignalJobRequest(s.here, job, &SignalJobParams{Signal: &signal, Flags: flags[to]})
	return Call("/job/{job_id}", request, err, func(a *KillJobResp) ([]wire.Error, []Error, []Warning) {
		return convertAll(a.Status, func(k *KillJobsRespJob) wire.Error {
			return wire.Error{Number: int(k.Error.Code), Text: k.Error.String, Description: k.Error.Message}
		}), a.Errors, a.Warnings
	})
}

// requeue asks to requeue a running job. With the flag Incomplete it has no effect on a job that waits or is over, so
// it may be sent twice. The API has a GET that does the same; it is not used, since a proxy might repeat a GET.
func (s speaker) requeue(job string) wire.Call[[]wire.Error] {
	text, err := wire.JSON(JobsRequeueQuery{Flags: &[]string{"Incomplete"}, Jobs: &[]string{job}})
	if err != nil {
		return wire.Call[[]wire.Error]{Err: err}
	}
	request, err := NewRequeueJobsRequestWithBody(s.here, "application/json", text)
	return Call("/jobs/requeue", request, err, func(a *JobsRequeueResp) ([]wire.Error, []Error, []Warning) {
		var outcomes []wire.Error
		for _, job := range a.Status {
			outcomes = append(outcomes, convertAll(job, func(e *JobArrayResponseMsgEntry) wire.Error {
				return wire.Error{Number: int(e.ErrorCode), Text: e.Error}
			})...)
		}
		return outcomes, a.Errors, a.Warnings
	})
}

func text(t string) *string { return &t }

func number(n OptionalNumber) wire.Number { return wire.Number(n) }
