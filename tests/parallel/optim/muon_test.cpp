// Tests of Muon: it equals PyTorch's results, has the same bits at every ZeRO level and on every
// number of ranks, works together with AdamW, and refuses tensors that are not matrices.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/optim/any_optimizer.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/optim/muon.hpp>
#include <parallel/train/stepper.hpp>
#include <support/given_gradients.hpp>
#include <support/golden/golden_tensor.hpp>

namespace muon_test {

using namespace parallel;
using parallel::index;
using test::given_tensor;
using muon_or_adamw = any_optimizer<muon, decoupled_adamw>;

static_assert(tensor_optimizer<muon> && tensor_optimizer<muon_or_adamw>);
static_assert(!tensor_optimizer<decoupled_adamw>);
static_assert(!tensor_optimizer<any_optimizer<decoupled_adamw>>);

constexpr zero::level all_levels[] = {zero::level::none, zero::level::optimizer,
                                      zero::level::gradients, zero::level::parameters};
// Microbatches of the global batch: a power of two, so that sums over them and means are exact.
constexpr int microbatches = 4;

/// Tensors with initial weights, and their gradients as [step][tensor][element]; the gradients in
/// `tensors` are empty.
template <class T>
struct problem {
  std::vector<given_tensor<T>> tensors;
  std::vector<std::vector<std::vector<T>>> gradients;
};

/// The elements of each tensor after every step, as [step][element]; optimizer states are tensors
/// named "tensor#state".
template <class T>
using trace = std::map<std::string, std::vector<std::vector<T>>>;

/// Runs the steps of a problem on one rank. slice(parameter) turns a whole parameter into the
/// rank's slice of it. Copies what the rank owns after each step into `out`, which holds whole
/// tensors.
template <class T, class Comm, class Optimizer, class Slice>
void train_on(train::process_groups<Comm>& groups, problem<T> const& problem_to_run,
              train::optimizer_groups<Optimizer> const& optimizers, trace<T>& out, Slice&& slice) {
  host::device device;
  host::stream compute, exchanges;
  arena memory(device.allocate<std::byte>(4096));
  test::given_gradients<T> model(problem_to_run.tensors, slice);
  train::stepper step(model, device, groups, optimizers, {.level = groups.level()});
  model.set_weights(step);
  int const microbatches_per_rank = microbatches / groups.data_ranks();
  // The first tensor rank counts all tokens.
  std::vector<test::given_microbatch<T>> const local_microbatches(
      static_cast<std::size_t>(microbatches_per_rank),
      {.tokens = groups.tensor.rank() == 0 ? 1 : 0});
  std::vector<index> first_sequences;
  for (int i = 0; i < microbatches_per_rank; ++i)
    first_sequences.push_back(groups.data_rank() * microbatches_per_rank + i);
  for (std::size_t step_number = 0; step_number < problem_to_run.gradients.size(); ++step_number) {
    for (std::size_t i = 0; i < problem_to_run.tensors.size(); ++i)
      model.set_gradient(i, problem_to_run.gradients[step_number][i]);
    step.step(compute, exchanges, memory,
              {local_microbatches,
               first_sequences,
               {.step = static_cast<std::uint32_t>(step_number)},
               1.0});
    for (auto const& unit : step.units())
      for (std::size_t s = 0; s < unit.memory.segments().size(); ++s) {
        auto const& m = unit.memory.segments()[s];
        auto const& segment = unit.memory.layout().segments()[s];
        segment.for_each_piece(
            m.owned.begin, m.owned.end, [&](auto const& p, index begin, index end, index offset) {
              auto const copy = [&](std::string const& name, std::span<T> owned) {
                p.for_each_run(begin, end, [&](index from, index count, index global) {
                  std::copy_n(owned.begin() + (offset - m.owned.begin + from - begin), count,
                              out.at(name)[step_number].begin() + global);
                });
              };
              copy(p.name, m.master.span());
              for (std::size_t i = 0; i < m.states.size(); ++i)
                copy(p.name + "#" + std::string(step.state_names(segment.key.group)[i]),
                     m.states[i].span());
            });
      }
  }
}

/// Runs a problem on all ranks of a layout, and returns the trace of whole tensors. The arguments
/// of `slice` are a parameter, the tensor rank, the number of tensor ranks, and whether the
/// parameter is the second one of its name.
template <class T, class Optimizer, class Slice>
trace<T> run_sliced(problem<T> const& problem_to_run, training_layout const& shape,
                    zero::level level, train::optimizer_groups<Optimizer> const& optimizers,
                    Slice const& slice) {
  trace<T> out;
  for (auto const& tensor : problem_to_run.tensors) {
    std::vector<std::vector<T>> const whole(problem_to_run.gradients.size(), tensor.weights);
    out[tensor.name] = whole;
    auto const group = static_cast<std::size_t>(optimizers.key_of(tensor.name).group);
    for (auto const state : optimizers.optimizers[group].state_names())
      out[tensor.name + "#" + std::string(state)] = whole;
  }
  threads::run(shape.ranks(), [&](threads::communicator& comm) {
    train::process_groups groups(comm.split(0), shape, level);
    std::set<std::string> seen_names;
    train_on(groups, problem_to_run, optimizers, out, [&](auto& parameter) {
      bool const is_second_slice = !seen_names.insert(parameter.name).second;
      slice(parameter, groups.tensor.rank(), groups.tensor.size(), is_second_slice);
    });
  });
  return out;
}

template <class T, class Optimizer>
trace<T> run(problem<T> const& problem_to_run, int ranks, zero::level level,
             train::optimizer_groups<Optimizer> const& optimizers) {
  auto const shape = train::process_groups<threads::communicator>::data_layout(level, ranks);
  return run_sliced(problem_to_run, shape, level, optimizers, [](auto&&...) {});
}

struct golden {
  checkpoint::safetensors_file file{test::golden_folder() / "muon.safetensors"};

  template <class T>
  [[nodiscard]] problem<T> read_problem() const {
    problem<T> out;
    for (std::string const name : {"wide", "tall", "square"}) {
      auto const& extents = file.at(name + "/weight").extents;
      out.tensors.push_back({name,
                             {extents.begin(), extents.end()},
                             test::golden_tensor<T>(file, name + "/weight"),
                             {}});
      auto const all_gradients = test::golden_tensor<T>(file, name + "/gradients");
      auto const size = out.tensors.back().weights.size();
      out.gradients.resize(all_gradients.size() / size);
      for (std::size_t step_number = 0; step_number < out.gradients.size(); ++step_number)
        out.gradients[step_number].emplace_back(
            all_gradients.begin() + static_cast<std::ptrdiff_t>(step_number * size),
            all_gradients.begin() + static_cast<std::ptrdiff_t>((step_number + 1) * size));
    }
    return out;
  }
};

struct test_case {
  std::string name;
  muon rule;
} const cases[] = {
    {"original", {.learning_rate = 0.02}},
    {"match_rms_adamw",
     {.learning_rate = 0.01, .weight_decay = 0.5, .adjustment = muon_adjustment::match_rms_adamw}},
    {"spectral_unclamped",
     {.learning_rate = 0.02,
      .momentum = 0.8,
      .nesterov = false,
      .adjustment = muon_adjustment::spectral_unclamped}}};

/// The Euclidean distance.
template <class A, class B>
double distance(std::vector<A> const& a, std::vector<B> const& b) {
  REQUIRE(a.size() == b.size());
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(double(a[i]) - double(b[i]), 2);
  return std::sqrt(sum);
}

TEST_CASE("Muon: in fp64 it equals PyTorch to rounding") {
  golden const golden_file;
  auto const problem = golden_file.read_problem<double>();
  for (auto setup : cases) {
    auto& [name, rule] = setup;
    rule.precision = muon_precision::master;
    auto const actual = run<double, muon>(problem, 1, zero::level::none, rule);
    for (auto const& tensor : problem.tensors)
      for (std::size_t const step : {1, 5}) {
        CAPTURE(setup.name);
        CAPTURE(tensor.name);
        auto const key = concat(name, "/", tensor.name, "/fp64/", step);
        auto const expected = test::golden_tensor<double>(golden_file.file, key);
        auto const momentum = test::golden_tensor<double>(golden_file.file, key + "/momentum");
        CHECK(distance(actual.at(tensor.name)[step - 1], expected) <=
              1e-13 * distance(expected, std::vector<double>(expected.size())));
        CHECK(distance(actual.at(tensor.name + "#momentum_buffer")[step - 1], momentum) <=
              1e-15 * distance(momentum, std::vector<double>(momentum.size())));
      }
  }
}

// The bound is a tenth of PyTorch's own error in bf16, which is its distance from the same steps in
// fp64; all of its roundings contribute to that error. This library rounds the same sums, added in
// another order. A sum in fp32 then differs by about 2^-24, and rounds to another bf16 number only
// if it lies that close to the middle between two bf16 numbers, which are 2^-8 apart: this happens
// to one sum in some thousands.
TEST_CASE("Muon: in bf16 it differs from PyTorch by at most a tenth of PyTorch's rounding error") {
  golden const golden_file;
  auto const problem = golden_file.read_problem<float>();
  for (auto const& setup : cases) {
    auto const& [name, rule] = setup;
    auto const actual = run<float, muon>(problem, 1, zero::level::none, rule);
    for (auto const& tensor : problem.tensors)
      for (std::size_t const step : {1, 5}) {
        CAPTURE(setup.name);
        CAPTURE(tensor.name);
        CAPTURE(step);
        auto const key = [&](char const* precision) {
          return concat(setup.name, "/", tensor.name, "/", precision, "/", step);
        };
        auto const pytorch_weights = test::golden_tensor<float>(golden_file.file, key("bf16"));
        auto const exact = test::golden_tensor<double>(golden_file.file, key("fp64"));
        auto const& own_weights = actual.at(tensor.name)[step - 1];
        CHECK(distance(own_weights, pytorch_weights) <= 0.1 * distance(pytorch_weights, exact));
        auto const momentum =
            test::golden_tensor<float>(golden_file.file, key("bf16") + "/momentum");
        CHECK(distance(actual.at(tensor.name + "#momentum_buffer")[step - 1], momentum) <=
              1e-6 * distance(momentum, std::vector<float>(momentum.size())));
      }
  }
}

/// Tensors of small integers; by default matrices that shard boundaries cut, and a vector between
/// them.
template <class T>
problem<T> integers(std::vector<given_tensor<T>> tensors = {{"a", {7, 5}, {}, {}},
                                                            {"bias", {11}, {}, {}},
                                                            {"b", {33, 3}, {}, {}},
                                                            {"c", {16, 40}, {}, {}},
                                                            {"d", {2, 3}, {}, {}}}) {
  problem<T> out{std::move(tensors), std::vector<std::vector<std::vector<T>>>(3)};
  philox const random(1, stream_id("integers"));
  std::uint64_t draw_count = 0;
  auto const fill = [&](std::size_t size) {
    std::vector<T> values;
    while (values.size() < size)
      values.push_back(static_cast<T>(random.bits(draw_count++) % 9) - 4);
    return values;
  };
  for (auto& tensor : out.tensors) {
    index size = 1;
    for (index const extent : tensor.extents) size *= extent;
    tensor.weights = fill(static_cast<std::size_t>(size));
    for (auto& step : out.gradients) step.push_back(fill(tensor.weights.size()));
  }
  return out;
}

/// Puts matrices into group 0, which Muon trains, and the vector into group 1, which AdamW trains.
[[nodiscard]] segment_key matrices_first(std::string const& name) {
  return {.group = name == "bias" ? 1 : 0};
}

TEST_CASE_TEMPLATE("Muon: with AdamW, every ZeRO level and number of ranks gives one rank's bits",
                   T, float, double) {
  auto const problem = integers<T>();
  muon const rule{.learning_rate = 0.1};
  decoupled_adamw const adam{.learning_rate = 0.1};
  train::optimizer_groups<muon_or_adamw> const groups({rule, adam}, matrices_first);
  auto const expected = run(problem, 1, zero::level::none, groups);
  auto const adam_alone = run<T, decoupled_adamw>(problem, 1, zero::level::none, adam);
  for (auto const* const name : {"bias", "bias#exp_avg", "bias#exp_avg_sq"})
    CHECK(expected.at(name) == adam_alone.at(name));
  CHECK(expected.size() == 5 + 4 + 2);  // weights, momentum of matrices, moments of the vector
  CHECK(expected.at("a") != adam_alone.at("a"));
  for (int const ranks : {1, 2, 4})
    for (auto const level : all_levels) {
      CAPTURE(ranks);
      CAPTURE(static_cast<int>(level));
      CHECK(run(problem, ranks, level, groups) == expected);
    }
}

/// Turns a parameter into a rank's slice along the tensor axis. Ranks divide the columns of a and
/// c, and the rows of b; d and the vector stay whole. The fused matrix e has two parameters: ranks
/// divide the rows 0 to 8, and pairs of neighbours divide the rows 8 to 16.
template <class T>
void slice(parameter_base<T>& p, index rank, index ranks, bool is_second_slice) {
  auto const part_of = [&](index size) {
    return zero::range{size * rank / ranks, size * (rank + 1) / ranks};
  };
  p.replication.ranks = static_cast<int>(ranks);
  if (ranks == 1 || p.name == "bias" || p.name == "d") return;
  p.replication.ranks = 1;
  p.whole_extents = p.extents;
  if (p.name == "a" || p.name == "c") {
    auto const own_part = part_of(p.extents[1]);
    p.rows = {{0, p.extents[0]}};
    p.first_column = own_part.begin;
    p.extents[1] = own_part.size();
    return;
  }
  if (p.name == "b") {
    auto const own_part = part_of(p.extents[0]);
    p.rows = {{own_part.begin, own_part.size()}};
  } else if (is_second_slice) {
    auto const pair_of_ranks = rank / 2;
    p.replication.ranks = 2;
    p.rows = {{8 + 2 * pair_of_ranks, 2}, {12 + 2 * pair_of_ranks, 2}};
  } else {
    auto const own_part = part_of(8);
    p.rows = {{own_part.begin, own_part.size()}};
  }
  p.extents[0] = 0;
  for (auto const& range : p.rows) p.extents[0] += range.count;
}

TEST_CASE_TEMPLATE(
    "Muon: slices along the tensor axis are trained as the whole matrices of one rank", T, float,
    double) {
  auto problem = integers<T>();
  decoupled_adamw const adam{.learning_rate = 0.1};
  for (auto const precision : {muon_precision::bf16, muon_precision::master})
    for (int const tensor_ranks : {2, 3, 4}) {
      CAPTURE(tensor_ranks);
      auto sliced_problem = problem;
      auto whole = problem;
      if (tensor_ranks == 4) {  // e needs four ranks
        auto const e = integers<T>({{"e", {16, 6}, {}, {}}});
        whole.tensors.push_back(e.tensors[0]);
        sliced_problem.tensors.insert(sliced_problem.tensors.end(), 2, e.tensors[0]);
        for (std::size_t step_number = 0; step_number < e.gradients.size(); ++step_number) {
          whole.gradients[step_number].push_back(e.gradients[step_number][0]);
          sliced_problem.gradients[step_number].insert(sliced_problem.gradients[step_number].end(),
                                                       2, e.gradients[step_number][0]);
        }
      }
      muon const rule{.learning_rate = 0.1, .precision = precision};
      train::optimizer_groups<muon_or_adamw> const groups({rule, adam}, matrices_first);
      auto const expected = run(whole, 1, zero::level::none, groups);
      for (auto const level : all_levels)
        for (int const data_ranks : {1, 2}) {
          CAPTURE(static_cast<int>(level));
          CAPTURE(data_ranks);
          auto const shape =
              train::process_groups<threads::communicator>::data_layout(level, data_ranks)
                  .template with_degree<axis::tensor>(tensor_ranks);
          auto const actual = run_sliced(sliced_problem, shape, level, groups, slice<T>);
          CHECK(actual == expected);
        }
    }
}

/// The error message when Muon gets all of `tensors`, as `slice` slices them.
template <class Slice>
std::string refusal(std::vector<given_tensor<float>> tensors, Slice&& slice) {
  std::string message;
  host::device device;
  test::given_gradients<float> model(std::move(tensors), slice);
  try {
    threads::run(1, [&](threads::communicator& comm) {
      train::stepper step(model, device, comm, muon{}, {});
    });
  } catch (error const& e) {
    message = e.what();
  }
  return message;
}

TEST_CASE("Muon: a tensor that is not a matrix is refused before its memory is allocated") {
  CHECK(refusal({{"norm", {8}, {}, {}}}, [](auto&) {})
            .find("muon: norm has 1 dimensions, but only matrices can be orthogonalised; put it "
                  "into a group of another optimizer, such as decoupled_adamw") !=
        std::string::npos);
}

/// A tensor of the given extents, or some rows of one.
parameter_base<float> matrix(std::string name, std::vector<index> extents, index tensor_rows = 0) {
  parameter_base<float> out;
  out.name = std::move(name);
  out.extents = extents;
  if (tensor_rows > 0) {
    out.rows = {{0, extents[0]}};
    extents[0] = tensor_rows;
    out.whole_extents = extents;
  }
  return out;
}

TEST_CASE(
    "Muon: the workspace is as large as segments, divided tensors and the largest matrix need") {
  auto const wide = matrix("wide", {12, 20}), tall = matrix("tall", {24, 8});
  auto const slice = matrix("slice", {4, 20}, 8);
  unit_tensors<float> unit{{{448, 0, 224}}, {{{{&wide}}}, {{{&tall, 0, 256}}}}};
  // The 448 directions of the segment in bf16. Then 224 owned directions in float, or, which needs
  // more, x xᵀ of 12 x 12, a product of 12 x 20 and a norm. All sizes are multiples of 64 bytes.
  CHECK(muon{}.workspace_bytes<float>(unit) == 448 * 2 + 320 + 240 * 4 + 64);
  auto const wide_double = [] {
    parameter_base<double> out;
    out.name = "wide";
    out.extents = {12, 20};
    return out;
  }();
  unit_tensors<double> const double_unit{{{448, 0, 224}}, {{{{&wide_double}}}}};
  CHECK(muon{.precision = muon_precision::master}.workspace_bytes<double>(double_unit) ==
        448 * 8 + 144 * 8 + 240 * 8 + 64);
  unit.segments.push_back({128, 0, 64});
  unit.tensors.push_back({{{&slice, 1, 0}}});  // adds the whole tensor of 8 x 20
  CHECK(muon{}.workspace_bytes<float>(unit) == (448 + 128 + 160) * 2 + 320 + 240 * 4 + 64);
  unit.segments[0] = {448, 0, 448};  // 448 owned directions need more than the products
  CHECK(muon{}.workspace_bytes<float>(unit) == (448 + 128 + 160) * 2 + 448 * 4);
}

}  // namespace muon_test
