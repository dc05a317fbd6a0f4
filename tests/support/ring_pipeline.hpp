// A pipeline of ring maps for tests of the executor: exact modulo 2^64, with checks of its memory.
//
// Stage s computes y = a_s x + b_s + x², where a and b are vectors as long as x. A slot or boundary
// buffer is poisoned as soon as it may be reused, so that a late read or an early overwrite changes
// the result. Stage 0 derives its input from the microbatch; the loss of the last stage is Σ c_m y,
// where c is a vector that depends on the microbatch.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/pipeline/execute.hpp>

namespace test {

using ring = std::uint64_t;
using ring_vector = std::vector<ring>;

/// A pseudorandom number that depends on x only.
[[nodiscard]] constexpr ring noise(ring x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31U);
}

/// The results of a pipeline run: the gradients of a and b of each stage, and the loss.
struct ring_result {
  std::vector<ring_vector> da, db;  // by stage
  ring loss = 0;
  friend bool operator==(ring_result const&, ring_result const&) = default;
};

/// The sizes of a run. An activation of length 0 belongs to an empty microbatch.
struct ring_problem {
  int stages = 1;
  int microbatches = 1;
  bool has_empty = false;
  bool backward = true;

  static constexpr std::size_t max_length = 7;

  [[nodiscard]] bool is_empty(int m) const {
    return has_empty && noise(static_cast<ring>(m)) % 3 == 0;
  }
  [[nodiscard]] std::size_t length(int m) const {
    return is_empty(m) ? 0 : 1 + noise(static_cast<ring>(m) + 99) % max_length;
  }
  static ring a(int stage, std::size_t i) {
    return noise(1000 + 50 * static_cast<ring>(stage) + i);
  }
  static ring b(int stage, std::size_t i) {
    return noise(9000 + 50 * static_cast<ring>(stage) + i);
  }
  static ring x(int m, std::size_t i) { return noise(77000 + 50 * static_cast<ring>(m) + i); }
  static ring c(int m, std::size_t i) { return noise(55000 + 50 * static_cast<ring>(m) + i); }
  static ring poison(int m) { return noise(0xdeadULL + static_cast<ring>(m)); }

  [[nodiscard]] ring_result empty_result() const {
    auto const zeros =
        std::vector<ring_vector>(static_cast<std::size_t>(stages), ring_vector(max_length));
    return {zeros, zeros, 0};
  }
};

/// The same results, computed by one loop.
[[nodiscard]] inline ring_result serial(ring_problem const& problem) {
  auto out = problem.empty_result();
  for (int m = 0; m < problem.microbatches; ++m)
    for (std::size_t i = 0; i < problem.length(m); ++i) {
      std::vector<ring> x{problem.x(m, i)};
      for (int s = 0; s < problem.stages; ++s)
        x.push_back(problem.a(s, i) * x.back() + problem.b(s, i) + x.back() * x.back());
      out.loss += problem.c(m, i) * x.back();
      ring dy = problem.c(m, i);
      for (int s = problem.stages - 1; s >= 0 && problem.backward; --s) {
        auto const stage_index = static_cast<std::size_t>(s);
        out.da[stage_index][i] += dy * x[stage_index];
        out.db[stage_index][i] += dy;
        dy *= problem.a(s, i) + 2 * x[stage_index];
      }
    }
  return out;
}

/// One rank's share. Calls `pause(n)` in the n-th task to vary the order.
template <class Pause>
class ring_program {
 public:
  ring_program(ring_problem const& problem, parallel::pipeline::plan const& plan,
               parallel::host::stream& compute, Pause pause)
      : problem_(problem),
        plan_(plan),
        compute_(compute),
        pause_(pause),
        sums_(problem.empty_result()) {
    for (auto const& chunk : plan.chunks) {
      inputs_.push_back(buffers(chunk.boundaries));
      input_gradients_.push_back(buffers(chunk.boundaries));
      outputs_.push_back(buffers(chunk.slots));
      output_gradients_.push_back(buffers(chunk.slots));
      saved_inputs_.push_back(buffers(chunk.slots));
    }
  }

  parallel::host::stream& compute() { return compute_; }
  [[nodiscard]] bool is_empty(int m) const { return problem_.is_empty(m); }
  using microbatch_task = parallel::pipeline::microbatch_task;
  std::span<ring> input(microbatch_task const& p) { return view(inputs_, p, p.boundary); }
  std::span<ring> input_gradient(microbatch_task const& p) {
    return view(input_gradients_, p, p.boundary);
  }
  std::span<ring> output(microbatch_task const& p) { return view(outputs_, p, p.slot); }
  std::span<ring> output_gradient(microbatch_task const& p) {
    return view(output_gradients_, p, p.slot);
  }

  void run(parallel::pipeline::step const& s) {
    compute_.enqueue([this, s, n = tasks_++] {
      pause_(n);
      using enum parallel::pipeline::action_kind;
      switch (s.computes) {
        case forward: return forward_pass(s.task);
        case backward_input: return input_pass(s.task);
        case backward_weight: return weight_pass(s.task);
        case backward: input_pass(s.task); return weight_pass(s.task);
      }
    });
  }

  /// The sums; valid after the compute stream has ended.
  [[nodiscard]] ring_result const& sums() const { return sums_; }

 private:
  using pool = std::vector<ring_vector>;  // by slot or boundary buffer

  static pool buffers(int count) {
    return pool(static_cast<std::size_t>(count),
                ring_vector(ring_problem::max_length, noise(count)));
  }
  [[nodiscard]] std::size_t chunk(microbatch_task const& p) const {
    return static_cast<std::size_t>(p.stage / plan_.ranks);
  }
  std::span<ring> view(std::vector<pool>& pools, microbatch_task const& p, int number) {
    return std::span(pools[chunk(p)].at(static_cast<std::size_t>(number)))
        .first(problem_.length(p.microbatch));
  }
  std::span<ring> saved_input(microbatch_task const& p) { return view(saved_inputs_, p, p.slot); }
  [[nodiscard]] bool is_last(microbatch_task const& p) const {
    return p.stage == problem_.stages - 1;
  }

  static void spoil(std::span<ring> values, microbatch_task const& p) {
    for (ring& x : values) x = ring_problem::poison(p.microbatch);
  }

  void forward_pass(microbatch_task const& p) {
    auto x = saved_input(p);
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = p.stage == 0 ? problem_.x(p.microbatch, i) : input(p)[i];
      ring const y = problem_.a(p.stage, i) * x[i] + problem_.b(p.stage, i) + x[i] * x[i];
      if (is_last(p))
        sums_.loss += problem_.c(p.microbatch, i) * y;
      else
        output(p)[i] = y;
    }
    if (p.stage > 0 && !problem_.backward) spoil(input(p), p);
  }

  ring dy(microbatch_task const& p, std::size_t i) {
    return is_last(p) ? problem_.c(p.microbatch, i) : output_gradient(p)[i];
  }
  // The input, from the boundary buffer, must stay until the weight gradient is computed.
  ring x(microbatch_task const& p, std::size_t i) {
    return p.stage == 0 ? saved_input(p)[i] : input(p)[i];
  }

  void input_pass(microbatch_task const& p) {
    for (std::size_t i = 0; i < problem_.length(p.microbatch) && p.stage > 0; ++i)
      input_gradient(p)[i] = dy(p, i) * (problem_.a(p.stage, i) + 2 * saved_input(p)[i]);
  }

  void weight_pass(microbatch_task const& p) {
    auto const stage = static_cast<std::size_t>(p.stage);
    for (std::size_t i = 0; i < problem_.length(p.microbatch); ++i) {
      sums_.da[stage][i] += dy(p, i) * x(p, i);
      sums_.db[stage][i] += dy(p, i);
    }
    // The slot and the input may be reused.
    spoil(saved_input(p), p);
    if (!is_last(p)) {
      spoil(output(p), p);
      spoil(output_gradient(p), p);
    }
    if (p.stage > 0) spoil(input(p), p);
  }

  ring_problem problem_;
  parallel::pipeline::plan const& plan_;
  parallel::host::stream& compute_;
  Pause pause_;
  ring_result sums_;
  std::vector<pool> inputs_, input_gradients_, outputs_, output_gradients_,
      saved_inputs_;  // by chunk
  ring tasks_ = 0;
};

/// Runs the rank's plan `steps` times; returns the sums over all runs.
template <class Comm, class Pause>
[[nodiscard]] ring_result run_rank(Comm& comm, parallel::pipeline::schedule const& run_schedule,
                                   bool has_empty, Pause pause, int steps = 1) {
  ring_problem const problem{run_schedule.stages(), run_schedule.microbatches, has_empty,
                             !run_schedule.forward_only};
  auto const plan = parallel::pipeline::lower(run_schedule, comm.rank());
  parallel::pipeline::p2p_streams<Comm> streams(comm);
  parallel::host::stream compute;
  ring_program program(problem, plan, compute, pause);
  std::vector<std::vector<parallel::request>> messages;
  for (int i = 0; i < steps; ++i)
    messages.push_back(parallel::pipeline::execute(plan, streams, program));
  compute.synchronize();
  return program.sums();
}

}  // namespace test
