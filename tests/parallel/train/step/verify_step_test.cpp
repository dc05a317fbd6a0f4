// Every plan that a step is lowered to is proved, and every mutation of a plan is found.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <parallel/train/step/verify_step.hpp>

#include "support/planned_steps.hpp"

namespace verify_step_test {
namespace {

namespace train = parallel::train;
using test::planned_step;
using train::action_kind;
using train::step_flaw;
using train::step_plan;

/// All data ranks run the same plans.
std::vector<step_plan> twice(std::vector<step_plan> plans) {
  auto const one = plans;
  plans.insert(plans.end(), one.begin(), one.end());
  return plans;
}

void check_good(planned_step const& planned) {
  auto const plans = twice(planned.plans());
  auto const found = train::verify(plans);
  if (found.good()) return;
  CAPTURE(planned.schedule);
  CAPTURE(planned.ranks);
  CAPTURE(planned.microbatches);
  CAPTURE(planned.stages_per_rank);
  CAPTURE(planned.zero);
  FAIL(train::to_string(found, plans));
}

int stages_of(std::string const& schedule) {
  return schedule == "interleaved" ? 0 : schedule == "zb-v" || schedule == "dual-pipe-v" ? 2 : 1;
}

/// Checks every schedule on up to 8 ranks with up to 4 stages each, for these numbers of
/// microbatches, at every ZeRO level, with changing choices, and its forward passes alone; returns
/// the number of training steps.
int check_all(std::vector<int> const& microbatches) {
  int count = 0;
  for (std::string const schedule :
       {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dual-pipe-v"})
    for (int ranks = 1; ranks <= 8; ++ranks)
      for (int const m : microbatches) {
        if (parallel::pipeline::least_microbatches(schedule, ranks, m) != m) continue;
        for (int v = 1; v <= 4; ++v) {
          if (stages_of(schedule) != 0 && v != stages_of(schedule)) continue;
          for (int zero = 0; zero <= 3; ++zero) {
            planned_step planned{.schedule = schedule,
                                 .ranks = ranks,
                                 .microbatches = m,
                                 .stages_per_rank = v,
                                 .zero = zero,
                                 .data = zero == 0 ? 1 : 2};
            planned.choices.overlap_weights = (ranks + m) % 2 == 0;
            planned.choices.reshard_after_forward = (ranks + v) % 2 == 0;
            planned.choices.prefetch = m % 3;
            planned.reduce_every_microbatch = (m + v) % 3 != 0;
            planned.choices.gathers = static_cast<train::gather_time>((ranks + 2 * m + v) % 3);
            planned.whole_tensors = (ranks + m + v) % 2 == 0;
            check_good(planned);
            ++count;
            if (zero % 3 != 0) continue;
            planned.choices.mode = parallel::pass::inference;
            check_good(planned);
          }
        }
      }
  return count;
}

TEST_CASE("verify_step: every schedule, size, ZeRO level and choice gives plans that can run") {
  int const count = check_all({1, 2, 3, 4, 6, 8, 12, 16, 24, 32});
  MESSAGE(count << " steps");
  CHECK(count > 1500);
}

TEST_CASE("[full] verify_step: every number of microbatches gives plans that can run") {
  std::vector<int> every_count;
  for (int m = 1; m <= 32; ++m) every_count.push_back(m);
  CHECK(check_all(every_count) > 5000);
}

TEST_CASE("verify_step: every choice on a few shapes gives plans that can run, evaluation too") {
  int count = 0;
  for (std::string const schedule :
       {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dual-pipe-v"})
    for (int const ranks : {1, 2, 3})
      for (int zero = 0; zero <= 3; ++zero)
        for (int choice = 0; choice < 96; ++choice) {
          bool const tree = choice % 2 == 1;
          planned_step planned{.schedule = schedule,
                               .ranks = ranks,
                               .microbatches = 6,
                               .stages_per_rank = 2,
                               .zero = zero,
                               .data = zero == 0 ? 1 : 2,
                               .tied = choice / 2 % 2 == 1};
          planned.choices.canonical_tree = tree;
          planned.choices.overlap_weights = choice / 4 % 2 == 1;
          planned.choices.reshard_after_forward = choice / 8 % 2 == 1;
          planned.choices.prefetch = choice / 16 % 3;
          planned.choices.mode =
              choice / 48 == 1 ? parallel::pass::inference : parallel::pass::training;
          check_good(planned);
          ++count;
        }
  CHECK(count == 6 * 3 * 4 * 96);
}

/// Removes an action; actions that waited for it no longer wait for it.
void drop(step_plan& plan, int number) {
  plan.actions.erase(plan.actions.begin() + number);
  for (auto& a : plan.actions) {
    std::erase(a.dependencies, number);
    for (int& other : a.dependencies) other -= other > number ? 1 : 0;
  }
}

/// Inserts a copy of an action after it.
void repeat(step_plan& plan, int number) {
  auto const copy = plan.actions[static_cast<std::size_t>(number)];
  plan.actions.insert(plan.actions.begin() + number + 1, copy);
  for (auto& a : plan.actions)
    for (int& other : a.dependencies) other += other > number ? 1 : 0;
}

/// Exchanges an action with the next one on its stream, with their waits; returns false if there is
/// no next one or one waits for the other.
bool swap_with_next(step_plan& plan, int number) {
  auto& list = plan.actions;
  auto const first = static_cast<std::size_t>(number);
  std::size_t next = first + 1;
  while (next < list.size() && list[next].lane != list[first].lane) ++next;
  if (next == list.size()) return false;
  for (int const other : list[next].dependencies)
    if (other > number) return false;
  std::swap(list[first], list[next]);
  return true;
}

std::string kind_of(train::action const& a) {
  if (a.kind == action_kind::pass) return std::string(to_string(a.pass));
  if (a.kind == action_kind::edge) return std::string(to_string(a.edge));
  return std::string(to_string(a.kind));
}

std::vector<planned_step> samples() {
  std::vector<planned_step> out;
  for (std::string const schedule :
       {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dual-pipe-v"})
    for (int zero = 0; zero <= 3; ++zero)
      for (bool const tree : {false, true}) {
        planned_step planned{.schedule = schedule,
                             .microbatches = 4,
                             .stages_per_rank = 2,
                             .zero = zero,
                             .data = zero == 0 ? 1 : 2};
        planned.choices.canonical_tree = tree;
        planned.choices.overlap_weights = zero % 2 == 1;
        planned.choices.prefetch = zero == 3 ? 1 : 0;
        out.push_back(planned);
      }
  out.push_back({.ranks = 1, .zero = 3});
  out.back().choices.reshard_after_forward = false;
  out.push_back({.ranks = 3, .zero = 2});
  out.push_back({.zero = 1, .whole_tensors = true});
  out.push_back({.ranks = 1, .zero = 3, .whole_tensors = true});
  for (int const zero : {1, 2}) {
    out.push_back({.zero = zero});
    out.back().choices.gathers = train::gather_time::before_use;
    out.push_back(out.back());
    out.back().choices.gathers = train::gather_time::none;
  }
  // Whole values and gradients stay between microbatches, as in a pipeline where memory allows it.
  for (int const zero : {2, 3}) {
    out.push_back({.zero = zero, .reduce_every_microbatch = false});
    out.back().choices.reshard_after_forward = false;
  }
  return out;
}

/// Applies `mutate(plan, action)`, which returns whether it changed anything, to every action of
/// one rank, one at a time. Counts the mutants and those that were not refused, by kind of action.
template <class Mutate>
std::map<std::string, std::pair<int, int>> survivors_of(Mutate mutate) {
  std::map<std::string, std::pair<int, int>> out;
  for (auto const& planned : samples()) {
    auto const good = twice(planned.plans());
    REQUIRE(train::verify(good).good());
    for (std::size_t rank = 0; rank < good.size() / 2; ++rank)
      for (int i = 0; i < std::ssize(good[rank].actions); ++i) {
        auto broken = good;
        if (!mutate(broken[rank], i)) continue;
        auto& [tried, alive] = out[kind_of(good[rank].actions[static_cast<std::size_t>(i)])];
        ++tried;
        if (train::verify(broken).good()) ++alive;
      }
  }
  return out;
}

template <class Mutate>
void check_refused(std::string const& mutation, std::set<std::string> const& harmless,
                   Mutate mutate) {
  int count = 0;
  for (auto const& survivor : survivors_of(mutate)) {
    auto const& [kind, counts] = survivor;
    count += counts.first;
    if (harmless.contains(kind)) continue;
    CAPTURE(survivor.first);
    CAPTURE(survivor.second.first);
    CHECK(counts.second == 0);
  }
  MESSAGE(count << " mutants: " << mutation);
}

TEST_CASE("verify_step: a dropped action is found") {
  check_refused("dropped", {}, [](step_plan& plan, int i) {
    drop(plan, i);
    return true;
  });
}

TEST_CASE("verify_step: a repeated action is found") {
  check_refused("repeated", {}, [](step_plan& plan, int i) {
    repeat(plan, i);
    return true;
  });
}

TEST_CASE("verify_step: an exchange that is swapped with the next one on its stream is found") {
  check_refused("exchanged", {}, [](step_plan& plan, int i) {
    return plan.actions[static_cast<std::size_t>(i)].lane != train::lane::compute &&
           swap_with_next(plan, i);
  });
}

/// Moves an action to the position of another; the actions between them move by one.
void move_before(step_plan& plan, int number, int target) {
  auto& list = plan.actions;
  std::rotate(list.begin() + target, list.begin() + number, list.begin() + number + 1);
  for (auto& a : list)
    for (int& other : a.dependencies) {
      if (other == number)
        other = target;
      else if (target <= other && other < number)
        ++other;
    }
}

TEST_CASE("verify_step: a part's values are not resharded before its pass or unsharded after it") {
  check_refused("resharded too early", {}, [](step_plan& plan, int i) {
    if (plan.actions[static_cast<std::size_t>(i)].kind != action_kind::reshard) return false;
    move_before(plan, i, i - 1);
    return true;
  });
  check_refused("room for gradients too late", {}, [](step_plan& plan, int i) {
    if (plan.actions[static_cast<std::size_t>(i)].kind != action_kind::begin_gradients)
      return false;
    return swap_with_next(plan, i);
  });
}

TEST_CASE("verify_step: gradients are reduced after their last microbatch, and used after that") {
  check_refused("reduced too early", {}, [](step_plan& plan, int i) {
    auto const& a = plan.actions[static_cast<std::size_t>(i)];
    if (a.kind != action_kind::reduce || a.dependencies.empty()) return false;
    auto const [unit, use] = a.bucket.front();
    auto const p = plan.units[static_cast<std::size_t>(unit)].parts[static_cast<std::size_t>(use)];
    int pass = i;
    for (bool adds = false; !adds;) {
      auto const& b = plan.actions[static_cast<std::size_t>(--pass)];
      adds = b.kind == action_kind::pass && b.model_part == p && train::adds_gradients(b.pass);
    }
    move_before(plan, i, pass);
    plan.actions[static_cast<std::size_t>(pass)].dependencies = {pass - 1};
    return true;
  });
  check_refused("updated too early", {}, [](step_plan& plan, int i) {
    if (plan.actions[static_cast<std::size_t>(i)].kind != action_kind::clip) return false;
    return swap_with_next(plan, i);
  });
}

TEST_CASE(
    "verify_step: a thread must send what a computation needs before the computation blocks it") {
  planned_step const planned{.microbatches = 1, .zero = 0, .data = 1};
  auto plans = planned.plans();
  auto& list = plans[0].actions;
  // Rank 0 computes the backward pass of microbatch 0 before it enqueues the send of its
  // activation.
  int send = 0;
  while (kind_of(list[static_cast<std::size_t>(send)]) != "send_activation") ++send;
  int last = static_cast<int>(list.size()) - 1;
  while (list[static_cast<std::size_t>(last)].task.microbatch != 0 ||
         kind_of(list[static_cast<std::size_t>(last)]) != "backward")
    --last;
  for (; send < last; ++send) {
    std::swap(list[static_cast<std::size_t>(send)], list[static_cast<std::size_t>(send) + 1]);
    for (auto& a : list)
      for (int& other : a.dependencies)
        other = other == send ? send + 1 : other == send + 1 ? send : other;
  }
  auto const found = train::verify(plans);
  CHECK(found.problem == step_flaw::deadlock);
  auto const text = train::to_string(found, plans);
  CHECK(text.starts_with(parallel::concat("the step's plan of pipeline rank ", found.plan,
                                          " of 2 with 1 microbatches cannot run: action ",
                                          found.action, " (")));
  CHECK(text.find("waits for ever") != std::string::npos);
  CHECK_THROWS_WITH(train::require_runs(plans), text.c_str());
}

TEST_CASE("verify_step: a slot or boundary buffer too few is found") {
  // Every microbatch uses the memory of the first.
  int count = 0;
  for (auto const& planned : samples()) {
    auto plans = planned.plans();
    REQUIRE(train::verify(plans).good());
    bool has_several = false;
    for (auto& plan : plans) {
      for (auto const& memory : plan.memory) has_several = has_several || memory.slots > 1;
      for (auto& task : plan.tasks) task.slot = task.boundary = 0;
      for (auto& a : plan.actions) a.task.slot = a.task.boundary = 0;
    }
    if (!has_several) continue;
    auto const problem = train::verify(plans).problem;
    CHECK((problem == step_flaw::stale || problem == step_flaw::race));
    ++count;
  }
  CHECK(count >= 48);
}

TEST_CASE(
    "verify_step: a device must run as many exchanges at once as there are exchange streams") {
  planned_step const planned{.ranks = 4};
  auto const plans = planned.plans();
  CHECK(train::exchanges_at_once(plans[0]) == 4);  // gathers, reductions, to and from rank 1
  CHECK(train::exchanges_at_once(plans[1]) == 6);
  CHECK(train::verify(plans, 6).good());
  auto const found = train::verify(plans, 5);
  CHECK(found.problem == step_flaw::too_many_exchanges);
  CHECK(found.plan == 1);
}

TEST_CASE("verify_step: a missing wait is found") {
  for (std::size_t wait_number : {0, 1, 2})
    check_refused("without a wait", {}, [wait_number](step_plan& plan, int i) {
      auto& waits = plan.actions[static_cast<std::size_t>(i)].dependencies;
      if (wait_number >= waits.size()) return false;
      waits.erase(waits.begin() + static_cast<std::ptrdiff_t>(wait_number));
      return true;
    });
}

TEST_CASE("verify_step: an exchange on another stream is found") {
  for (int const shift : {1, 2})
    check_refused("on another stream", {}, [shift](step_plan& plan, int i) {
      auto& a = plan.actions[static_cast<std::size_t>(i)];
      if (!a.exchanges()) return false;
      a.lane = (a.lane + shift) % static_cast<int>(plan.lanes());
      return true;
    });
}

TEST_CASE("verify_step: a pipeline of 64 ranks and 1024 microbatches is proved") {
  planned_step const planned{.ranks = 64, .microbatches = 1024, .blocks = 64};
  auto const plans = planned.plans();
  std::size_t actions = 0;
  for (auto const& one : plans) actions += one.actions.size();
  auto const start = std::chrono::steady_clock::now();
  CHECK(train::verify(plans).good());
  auto const seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  MESSAGE(actions << " actions, " << seconds << " s");
}

}  // namespace
}  // namespace verify_step_test
