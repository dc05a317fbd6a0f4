// Muon against PyTorch's own numbers, under every ZeRO stage, and beside AdamW.
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
#include <support/golden_tensor.hpp>

namespace muon_test {

using namespace parallel;
using parallel::index;
using test::given_tensor;
using any = any_optimizer<muon, decoupled_adamw>;

static_assert(tensor_optimizer<muon> && tensor_optimizer<any>);
static_assert(!tensor_optimizer<decoupled_adamw>);
static_assert(!tensor_optimizer<any_optimizer<decoupled_adamw>>);

constexpr zero::level all_levels[] = {zero::level::none, zero::level::optimizer,
                                      zero::level::gradients, zero::level::parameters};
constexpr int batches = 4;  // of the global batch: sums over them and their mean are exact

/// Of every step the gradients by tensor; `tensors` without gradients.
template <class T>
struct problem {
  std::vector<given_tensor<T>> tensors;
  std::vector<std::vector<std::vector<T>>> gradients;
};

/// By tensor, each after every step: weights and then optimizer states.
template <class T>
using trace = std::map<std::string, std::vector<std::vector<T>>>;

/// The steps of `of` on one rank of `groups`, whose slices `slice` makes; what it owns goes into
/// `out`, which is whole.
template <class T, class Comm, class Optimizer, class Slice>
void train_on(train::process_groups<Comm>& groups, problem<T> const& of,
              train::optimizer_groups<Optimizer> const& optimizers, trace<T>& out, Slice&& slice) {
  host::device device;
  host::stream compute, exchanges;
  arena memory(device.allocate<std::byte>(4096));
  test::given_gradients<T> model(of.tensors, slice);
  train::stepper step(model, device, groups, optimizers, {.level = groups.level()});
  model.set_weights(step);
  int const mine = batches / groups.data_ranks();
  std::vector<test::given_microbatch<T>> const share(  // one tensor rank counts
      static_cast<std::size_t>(mine), {.tokens = groups.tensor.rank() == 0 ? 1 : 0});
  std::vector<index> first;
  for (int i = 0; i < mine; ++i) first.push_back(groups.data_rank() * mine + i);
  for (std::size_t at = 0; at < of.gradients.size(); ++at) {
    for (std::size_t i = 0; i < of.tensors.size(); ++i) model.set_gradient(i, of.gradients[at][i]);
    step.step(compute, exchanges, memory, std::span(share), std::span(std::as_const(first)),
              {.step = static_cast<std::uint32_t>(at)}, 1.0);
    for (auto const& unit : step.units())
      for (std::size_t s = 0; s < unit.memory.segments().size(); ++s) {
        auto const& m = unit.memory.segments()[s];
        auto const& segment = unit.memory.layout().segments()[s];
        segment.for_each_piece(
            m.owned.begin, m.owned.end, [&](auto const& p, index begin, index end, index place) {
              auto const copy = [&](std::string const& name, std::span<T> held) {
                p.for_each_run(begin, end, [&](index from, index count, index global) {
                  std::copy_n(held.begin() + (place - m.owned.begin + from - begin), count,
                              out.at(name)[at].begin() + global);
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

/// `slice(parameter, tensor rank, tensor ranks, whether one of its name was before)`.
template <class T, class Optimizer, class Slice>
trace<T> run_sliced(problem<T> const& of, training_layout const& shape, zero::level level,
                    train::optimizer_groups<Optimizer> const& optimizers, Slice const& slice) {
  trace<T> out;
  for (auto const& tensor : of.tensors) {
    std::vector<std::vector<T>> const whole(of.gradients.size(), tensor.weights);
    out[tensor.name] = whole;
    auto const group = static_cast<std::size_t>(optimizers.key_of(tensor.name).group);
    for (auto const state : optimizers.optimizers[group].state_names())
      out[tensor.name + "#" + std::string(state)] = whole;
  }
  threads::run(shape.ranks(), [&](threads::communicator& comm) {
    train::process_groups groups(comm.split(0), shape, level);
    std::set<std::string> seen;
    train_on(groups, of, optimizers, out, [&](auto& parameter) {
      bool const again = !seen.insert(parameter.name).second;
      slice(parameter, groups.tensor.rank(), groups.tensor.size(), again);
    });
  });
  return out;
}

template <class T, class Optimizer>
trace<T> run(problem<T> const& of, int ranks, zero::level level,
             train::optimizer_groups<Optimizer> const& optimizers) {
  auto const shape = train::process_groups<threads::communicator>::data_layout(level, ranks);
  return run_sliced(of, shape, level, optimizers, [](auto&&...) {});
}

struct golden {
  checkpoint::safetensors_file file{test::golden_folder() / "muon.safetensors"};

  template <class T>
  [[nodiscard]] problem<T> given() const {
    problem<T> out;
    for (std::string const name : {"wide", "tall", "square"}) {
      auto const& extents = file.at(name + "/weight").extents;
      out.tensors.push_back({name,
                             {extents.begin(), extents.end()},
                             test::golden_tensor<T>(file, name + "/weight"),
                             {}});
      auto const all = test::golden_tensor<T>(file, name + "/gradients");
      auto const size = out.tensors.back().weights.size();
      out.gradients.resize(all.size() / size);
      for (std::size_t at = 0; at < out.gradients.size(); ++at)
        out.gradients[at].emplace_back(all.begin() + static_cast<std::ptrdiff_t>(at * size),
                                       all.begin() + static_cast<std::ptrdiff_t>((at + 1) * size));
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

TEST_CASE("Muon in fp64 equals PyTorch's to rounding") {
  golden const given;
  auto const problem = given.given<double>();
  for (auto at : cases) {
    auto& [name, rule] = at;
    rule.precision = muon_precision::master;
    auto const got = run<double, muon>(problem, 1, zero::level::none, rule);
    for (auto const& tensor : problem.tensors)
      for (std::size_t const step : {1, 5}) {
        CAPTURE(at.name);
        CAPTURE(tensor.name);
        auto const key = concat(name, "/", tensor.name, "/fp64/", step);
        auto const expected = test::golden_tensor<double>(given.file, key);
        auto const momentum = test::golden_tensor<double>(given.file, key + "/momentum");
        CHECK(distance(got.at(tensor.name)[step - 1], expected) <=
              1e-13 * distance(expected, std::vector<double>(expected.size())));
        CHECK(distance(got.at(tensor.name + "#momentum_buffer")[step - 1], momentum) <=
              1e-15 * distance(momentum, std::vector<double>(momentum.size())));
      }
  }
}

// The bound is a tenth of what rounding to bf16 costs PyTorch itself: its distance from the same
// steps in fp64, which all roundings make up. Here each rounding is of the same sum, taken in
// another order: it differs (by one unit of bf16) only where the sum lies within its rounding in
// fp32, about 2^-24, of the middle between two numbers of bf16, 2^-8 apart: one in some thousands.
TEST_CASE("Muon in bf16 is much nearer to PyTorch's than PyTorch's is to exact steps") {
  golden const given;
  auto const problem = given.given<float>();
  for (auto const& at : cases) {
    auto const& [name, rule] = at;
    auto const got = run<float, muon>(problem, 1, zero::level::none, rule);
    for (auto const& tensor : problem.tensors)
      for (std::size_t const step : {1, 5}) {
        CAPTURE(at.name);
        CAPTURE(tensor.name);
        CAPTURE(step);
        auto const key = [&](char const* precision) {
          return concat(at.name, "/", tensor.name, "/", precision, "/", step);
        };
        auto const theirs = test::golden_tensor<float>(given.file, key("bf16"));
        auto const exact = test::golden_tensor<double>(given.file, key("fp64"));
        auto const& ours = got.at(tensor.name)[step - 1];
        CHECK(distance(ours, theirs) <= 0.1 * distance(theirs, exact));
        auto const momentum = test::golden_tensor<float>(given.file, key("bf16") + "/momentum");
        CHECK(distance(got.at(tensor.name + "#momentum_buffer")[step - 1], momentum) <=
              1e-6 * distance(momentum, std::vector<float>(momentum.size())));
      }
  }
}

/// Tensors of small integers, by default matrices that no shard boundary respects, and a vector
/// between them.
template <class T>
problem<T> integers(std::vector<given_tensor<T>> tensors = {{"a", {7, 5}, {}, {}},
                                                            {"bias", {11}, {}, {}},
                                                            {"b", {33, 3}, {}, {}},
                                                            {"c", {16, 40}, {}, {}},
                                                            {"d", {2, 3}, {}, {}}}) {
  problem<T> out{std::move(tensors), std::vector<std::vector<std::vector<T>>>(3)};
  philox const random(1, stream_id("integers"));
  std::uint64_t at = 0;
  auto const fill = [&](std::size_t size) {
    std::vector<T> values;
    while (values.size() < size) values.push_back(static_cast<T>(random.bits(at++) % 9) - 4);
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

[[nodiscard]] segment_key matrices_first(std::string const& name) {
  return {.group = name == "bias" ? 1 : 0};
}

TEST_CASE_TEMPLATE("beside AdamW, every ZeRO stage and number of ranks gives one rank's bits", T,
                   float, double) {
  auto const problem = integers<T>();
  muon const rule{.learning_rate = 0.1};
  decoupled_adamw const adam{.learning_rate = 0.1};
  train::optimizer_groups<any> const groups({rule, adam}, matrices_first);
  auto const expected = run(problem, 1, zero::level::none, groups);
  auto const adam_alone = run<T, decoupled_adamw>(problem, 1, zero::level::none, adam);
  for (auto const* const name : {"bias", "bias#exp_avg", "bias#exp_avg_sq"})
    CHECK(expected.at(name) == adam_alone.at(name));
  CHECK(expected.size() == 5 + 4 + 2);
  CHECK(expected.at("a") != adam_alone.at("a"));
  for (int const ranks : {1, 2, 4})
    for (auto const level : all_levels) {
      CAPTURE(ranks);
      CAPTURE(static_cast<int>(level));
      CHECK(run(problem, ranks, level, groups) == expected);
    }
}

/// What a rank along the tensor axis has: of a and c some columns, of b some rows, of the fused
/// matrix e rows that others have not, and, in a parameter of its own, rows that two neighbours
/// share; of d and the vector all.
template <class T>
void slice(parameter_base<T>& p, index rank, index ranks, bool again) {
  auto const part_of = [&](index size) {
    return zero::range{size * rank / ranks, size * (rank + 1) / ranks};
  };
  p.replication.ranks = static_cast<int>(ranks);
  if (ranks == 1 || p.name == "bias" || p.name == "d") return;
  p.replication.ranks = 1;
  p.whole_extents = p.extents;
  if (p.name == "a" || p.name == "c") {
    auto const mine = part_of(p.extents[1]);
    p.rows = {{0, p.extents[0]}};
    p.first_column = mine.begin;
    p.extents[1] = mine.size();
    return;
  }
  if (p.name == "b") {
    auto const mine = part_of(p.extents[0]);
    p.rows = {{mine.begin, mine.size()}};
  } else if (again) {
    auto const by_two = rank / 2;
    p.replication.ranks = 2;
    p.rows = {{8 + 2 * by_two, 2}, {12 + 2 * by_two, 2}};
  } else {
    auto const mine = part_of(8);
    p.rows = {{mine.begin, mine.size()}};
  }
  p.extents[0] = 0;
  for (auto const& range : p.rows) p.extents[0] += range.count;
}

TEST_CASE_TEMPLATE("slices along the tensor axis are trained as the whole matrices of one rank", T,
                   float, double) {
  auto problem = integers<T>();
  decoupled_adamw const adam{.learning_rate = 0.1};
  for (auto const precision : {muon_precision::bf16, muon_precision::master})
    for (int const tensor : {2, 3, 4}) {
      CAPTURE(tensor);
      auto given = problem;
      auto whole = problem;
      if (tensor == 4) {  // e: 8 rows and twice 4, which two ranks share two by two
        auto const e = integers<T>({{"e", {16, 6}, {}, {}}});
        whole.tensors.push_back(e.tensors[0]);
        given.tensors.insert(given.tensors.end(), 2, e.tensors[0]);
        for (std::size_t at = 0; at < e.gradients.size(); ++at) {
          whole.gradients[at].push_back(e.gradients[at][0]);
          given.gradients[at].insert(given.gradients[at].end(), 2, e.gradients[at][0]);
        }
      }
      muon const rule{.learning_rate = 0.1, .precision = precision};
      train::optimizer_groups<any> const groups({rule, adam}, matrices_first);
      auto const expected = run(whole, 1, zero::level::none, groups);
      for (auto const level : all_levels)
        for (int const data : {1, 2}) {
          CAPTURE(static_cast<int>(level));
          CAPTURE(data);
          auto const shape = train::process_groups<threads::communicator>::data_layout(level, data)
                                 .template with_degree<axis::tensor>(tensor);
          auto const got = run_sliced(given, shape, level, groups, slice<T>);
          CHECK(got == expected);
        }
    }
}

/// What is said when `tensors` are all given to Muon, with what `slice` leaves of them.
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

TEST_CASE("what is no whole matrix is refused before anything is allocated for it") {
  CHECK(refusal({{"norm", {8}, {}, {}}}, [](auto&) {})
            .find("muon: norm has 1 dimensions, but only matrices can be orthogonalised; put it "
                  "into a group of another optimizer, such as decoupled_adamw") !=
        std::string::npos);
}

/// A tensor of extents, or some rows of one.
parameter_base<float> matrix(std::string name, std::vector<index> extents, index of_rows = 0) {
  parameter_base<float> out;
  out.name = std::move(name);
  out.extents = extents;
  if (of_rows > 0) {
    out.rows = {{0, extents[0]}};
    extents[0] = of_rows;
    out.whole_extents = extents;
  }
  return out;
}

TEST_CASE("the workspace is as large as segments, divided tensors and the largest matrix need") {
  auto const wide = matrix("wide", {12, 20}), tall = matrix("tall", {24, 8});
  auto const slice = matrix("slice", {4, 20}, 8);
  unit_tensors<float> where{{{448, 0, 224}}, {{{{&wide}}}, {{{&tall, 0, 256}}}}};
  // all of 448; then u of 224, or x xᵀ of 12 x 12, a product of 12 x 20, a norm; each at a multiple
  // of 64
  CHECK(muon{}.workspace_bytes<float>(where) == 448 * 2 + 320 + 240 * 4 + 64);
  auto const wide64 = [] {
    parameter_base<double> out;
    out.name = "wide";
    out.extents = {12, 20};
    return out;
  }();
  unit_tensors<double> const in_double{{{448, 0, 224}}, {{{{&wide64}}}}};
  CHECK(muon{.precision = muon_precision::master}.workspace_bytes<double>(in_double) ==
        448 * 8 + 144 * 8 + 240 * 8 + 64);
  where.segments.push_back({128, 0, 64});
  where.tensors.push_back({{{&slice, 1, 0}}});  // and all 8 x 20 of it
  CHECK(muon{}.workspace_bytes<float>(where) == (448 + 128 + 160) * 2 + 320 + 240 * 4 + 64);
  where.segments[0] = {448, 0, 448};  // u of 448 is more
  CHECK(muon{}.workspace_bytes<float>(where) == (448 + 128 + 160) * 2 + 448 * 4);
}

}  // namespace muon_test
