// Mistakes in a user's model are refused before the first step with the name of the parameter, unit
// or part; a model without mistakes trains.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/layer/dropout.hpp>
#include <parallel/layer/embedding.hpp>
#include <parallel/layer/feed_forward.hpp>
#include <parallel/layer/norm.hpp>
#include <parallel/layer/sequential.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/ops/loss/cross_entropy.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/tensor/layers.hpp>
#include <parallel/tensor/slices.hpp>
#include <parallel/train/stepper.hpp>

#include <parallel/layer/activation.hpp>

#include "parallel/support/files.hpp"
#include "support/text_cases.hpp"

namespace model_check_test {
namespace {

using parallel::index;
using parallel::matrix_view;
namespace tensor = parallel::tensor;
namespace train = parallel::train;
namespace zero = parallel::zero;
using communicator = parallel::threads::communicator;
using linear = parallel::linear<float>;
using region = tensor::region<communicator>;
using square = parallel::activation<float>;
using feed_forward = parallel::feed_forward<square>;
using gather = tensor::gather<float, communicator>;
using reduce = tensor::reduce<float, communicator>;
using whole_branch = parallel::residual<parallel::sequential<parallel::norm<float>, feed_forward>>;
using sliced_branch = parallel::residual<
    parallel::sequential<parallel::norm<float>, gather, tensor::sliced<feed_forward>, reduce>>;

/// A norm whose backward_weight reads its values.
struct reading_norm : parallel::norm<float> {
  template <class Stream>
  void backward_weight(parallel::context<Stream>& c, saved const& activations) const {
    auto const copy = c.template allocate<float, 1>({weight.size()});
    parallel::ops::copy(c.stream, copy.span(), weight.value().span());
    parallel::norm<float>::backward_weight(c, activations);
  }
};
using reading_branch = parallel::residual<
    parallel::sequential<reading_norm, gather, tensor::sliced<feed_forward>, reduce>>;

/// A norm that does not say that its results are the same where ranks divide the rows of sequences.
struct undeclared_norm : parallel::norm<float> {
  static constexpr bool takes_divided_sequences = false;
};
using undeclared_branch = parallel::residual<
    parallel::sequential<undeclared_norm, gather, tensor::sliced<feed_forward>, reduce>>;

/// The norm at the beginning of a branch.
template <class Branch>
struct norm_in {
  using type = parallel::norm<float>;
};
template <class Norm, class... Rest>
struct norm_in<parallel::residual<parallel::sequential<Norm, Rest...>>> {
  using type = Norm;
};

constexpr index vocabulary = 8, features = 8, hidden = 16, blocks = 2, rows = 12;

struct batch_view {
  parallel::vector_view<std::int32_t const> ids, labels;
};

/// The mistakes of a model; none by default.
struct mistakes {
  bool unit_missing = false;       // no unit holds block 1
  bool parameter_missing = false;  // the exit visits its bias only
  bool slice_only = false;         // the exit reads some rows of a parameter that it never visits
  index part_of_second = 1;        // the part that visit_units names for block 1
  bool accumulates = false;        // the exit adds, but declares replaces_gradient
  std::string name_of_exit = "exit.weight";
  std::string name_of_unit = "exit";
  bool too_many_parts = false;
  bool copies_forgotten = false;        // norms do not declare that tensor ranks hold copies
  bool partial_forgotten = false;       // norms with divided rows do not declare partial gradients
  bool values_in_entry = false;         // the entry's backward pass reads the table
  bool whole_entry = false;             // the entry gives all rows instead of the rank's share
  bool overwrites = false;              // the exit overwrites a gradient to which it must add
  bool gradient_forgotten = false;      // the exit does not compute its bias gradient
  bool all_count = false;               // every tensor rank adds the loss of the same rows
  bool has_parts_of_sequences = false;  // the rank holds half of each sequence, as with context
  std::string tied_name = "";           // the name of the parameter tied to the table; empty: none
  bool share_forgotten = false;         // the model does not declare its share of rows
  bool no_count = false;                // no rank counts tokens
  bool first_counts_alone =
      false;                      // only one rank counts, though every tensor rank has its own rows
  bool each_counts_half = false;  // each rank counts half of the rows that all ranks have
  bool null_use = false;
  bool no_dx = false;           // the exit does not write its input gradient
  bool adds_to_dx = false;      // the exit adds to uninitialised memory
  bool misshapen = false;       // the exit multiplies matrices that do not fit
  bool equal_dropouts = false;  // the entry and the exit have dropouts of one name
  bool never_used = false;      // the exit visits a parameter with which it computes nothing
};

/// A model of `Block`s on slices of `ranks`.
template <class Block>
struct model {
  using element = float;
  using microbatch = batch_view;
  using block = Block;

  mistakes wrong;
  region ranks;
  index sequence_length = 0;
  parallel::embedding<float> tokens;
  std::deque<Block> column;
  linear exit;
  parallel::parameter<float, 2> unshown{"unshown", {4, features}};
  parallel::parameter<float, 2> alias{wrong.tied_name, {vocabulary, features}};

  model(region tensor_region, mistakes chosen) : wrong(std::move(chosen)), ranks(tensor_region) {
    parallel::initializer const start = parallel::normal_init{0.2F};
    tensor::axis_position const own_position{tensor_region.rank(), tensor_region.size()};
    parallel::parameter_replication const outside = tensor_region.replication_outside();
    tokens.weight = {"tokens", {vocabulary, features}, start};
    tokens.weight.replicated(outside);
    for (index i = 0; i < blocks; ++i) {
      auto const name = parallel::concat("block.", i, ".");
      auto const own_hidden = own_position.part_of(hidden, "hidden");
      typename norm_in<Block>::type norm;
      norm.weight = {name + "norm", {features}, parallel::constant_init{1.0F}};
      if (!wrong.copies_forgotten)
        norm.weight.replicated(wrong.partial_forgotten
                                   ? parallel::parameter_replication{tensor_region.size(), false}
                                   : outside);
      feed_forward wide;
      wide.up = tensor::keep_outputs(
          own_position, linear{{name + "up", {hidden, features}, start}, {}}, {own_hidden});
      wide.down = tensor::keep_inputs(
          own_position, linear{{name + "down", {features, hidden}, start}, {}}, own_hidden);
      if constexpr (!std::is_same_v<Block, whole_branch>)
        column.emplace_back(parallel::sequential(norm, gather{tensor_region},
                                                 tensor::sliced(std::move(wide)),
                                                 reduce{tensor_region, {}}));
      else
        column.emplace_back(parallel::sequential(norm, std::move(wide)));
    }
    exit.weight = {wrong.name_of_exit, {vocabulary, features}, start};
    exit.bias = {"exit.bias", {vocabulary}};
    exit.weight.replicated(outside);
    exit.bias.replicated(outside);
  }

  std::size_t num_blocks() const { return blocks; }
  Block const& at(std::size_t i) const { return column[i]; }
  index rows(batch_view const& b) const { return ranks.rows_outside(b.ids.size()); }
  index sequence(batch_view const& b) const {
    return sequence_length == 0 ? b.ids.size() : sequence_length;
  }
  parallel::row_share share(batch_view const& b) const {
    if (wrong.has_parts_of_sequences) return {.whole = 2 * b.ids.size(), .starts = {0}, .runs = 1};
    return {.first_row = wrong.share_forgotten ? 0 : ranks.first_row_outside(b.ids.size())};
  }
  index width() const { return features; }

  /// The exit as its unit sees it.
  struct shown_exit {
    model& owner;
    void visit_parameters(auto&& visit) {
      if (owner.wrong.never_used) visit(owner.unshown);
      if (!owner.wrong.parameter_missing) return owner.exit.visit_parameters(visit);
      visit(owner.exit.bias);
    }
  };

  void visit_units(auto&& visit) {
    using uses = std::vector<parallel::parameter_base<float>*>;
    using parts = std::vector<train::part>;
    if (wrong.null_use)
      visit(std::string("tokens"), tokens, parts{train::embed, blocks}, uses{nullptr});
    else if (wrong.tied_name.empty())
      visit(std::string("tokens"), tokens, parts{train::embed}, uses{});
    else
      visit(std::string("tokens"), tokens, parts{train::embed, blocks}, uses{&alias});
    visit(std::string("block.0"), column[0], parts{0}, uses{});
    if (!wrong.unit_missing)
      visit(std::string("block.1"), column[1], parts{wrong.part_of_second}, uses{});
    shown_exit shown{*this};
    visit(wrong.name_of_unit, shown, wrong.too_many_parts ? parts{blocks, 0} : parts{blocks},
          uses{});
  }

  auto embed(auto& c, batch_view const& b) const {
    auto const embedded = tokens.forward(c, b.ids);
    if (wrong.equal_dropouts) parallel::drop_rows(c, embedded, embedded, 0.5F, 7);
    return ranks.divides_rows() && !wrong.whole_entry
               ? embedded.slice(ranks.rank() * rows(b), (ranks.rank() + 1) * rows(b))
               : embedded;
  }
  void enter_backward(auto& c, batch_view const& b, matrix_view<float const> dy) const {
    if (wrong.values_in_entry) {
      auto const copy = c.template allocate<float, 2>({vocabulary, features});
      parallel::ops::copy(c.stream, copy.span(), tokens.weight.value().span());
    }
    auto const own_gradient =
        ranks.divides_rows() ? b.ids.slice(ranks.rank() * rows(b), (ranks.rank() + 1) * rows(b))
                             : b.ids;
    tokens.backward_weight(c, own_gradient, dy);
  }
  void head_loss(auto& c, batch_view const& b, matrix_view<float const> x, matrix_view<float> dx,
                 train::statistics<double>& sums) const {
    index const first = ranks.divides_rows() ? ranks.rank() * rows(b) : 0;
    if (wrong.slice_only) {
      auto const copy = c.template allocate<float, 2>({2, features});
      parallel::ops::copy(c.stream, copy.span(), unshown.value().slice(1, 3).span());
    }
    linear::saved activations;
    auto const logits = exit.forward(c, x, activations);
    if (wrong.equal_dropouts) parallel::drop_rows(c, logits, logits, 0.5F, 7);
    if (wrong.misshapen) parallel::ops::matmul(c.stream, logits, x, x);
    auto const losses = c.template allocate<float, 1>({x.extent(0)});
    auto const correct = c.template allocate<std::uint8_t, 1>({x.extent(0)});
    parallel::ops::cross_entropy(c.stream, logits, losses, correct,
                                 matrix_view<float const>(logits),
                                 b.labels.slice(first, first + x.extent(0)));
    if ((ranks.divides_rows() && !wrong.first_counts_alone) || ranks.rank() == 0 ||
        wrong.all_count) {
      index const half = ranks.rank() * model_check_test::rows / 2;
      auto const counted =
          wrong.each_counts_half ? losses.slice(half, half + model_check_test::rows / 2) : losses;
      parallel::ops::sum(c.stream, &sums.loss, std::span<float const>(counted.span()));
      if (!wrong.no_count) sums.tokens += counted.extent(0);
    }
    if (dx.extent(0) == 0) return;
    auto const gradient = exit.backward_input(c, logits, activations);
    if (wrong.accumulates || wrong.overwrites || wrong.gradient_forgotten)
      parallel::ops::matmul(c.stream, exit.weight.gradient(), matrix_view<float const>(logits), x,
                            {.transpose_a = true,
                             .accumulate = !wrong.overwrites &&
                                           !(wrong.gradient_forgotten && c.overwrite_gradients)});
    else
      exit.backward_weight(c, activations);
    if (wrong.no_dx) return;
    if (wrong.adds_to_dx)
      parallel::ops::add(c.stream, dx.span(), std::span<float const>(gradient.span()));
    else
      parallel::ops::copy(c.stream, dx.span(), std::span<float const>(gradient.span()));
  }
};

struct run_options {
  bool evaluates = false;  // evaluates instead of training
  int data = 1;
  int tensor = 1;
  int context = 1;
  bool sequence = false;  // rows between regions are divided over tensor ranks
  zero::level level = zero::level::none;
  bool uninitialised = false;
  bool seed_by_rank = false;
  double factor = 1.0;
  bool rate_by_rank = false;  // the learning rate differs by rank
  bool clip_by_rank = false;
  bool dropout_by_rank = false;  // the seed of dropout differs by rank
  bool data_by_rank = false;     // the data differ by world rank
  std::size_t places = 1;        // number of positions given for one microbatch
  train::clipping clip = {train::clipping_kind::norm, 1e3};
  int stages_per_rank = 1;
  bool frozen = false;
  bool two_steppers = false;  // two steppers use one model
  bool small_arena = false;
  bool replaced = false;      // the blocks are others than when the stepper was made
  index sequence_length = 0;  // that the model declares; 0: all rows are one sequence
};

/// Makes one step of a model with mistakes; returns the message of the refusal, or an empty string.
template <class Block = sliced_branch>
std::string refusal(mistakes const& wrong, run_options const& options = {}) {
  auto shape = parallel::training_layout{}
                   .with_degree<parallel::axis::tensor>(options.tensor)
                   .with_degree<parallel::axis::context>(options.context);
  shape = options.level == zero::level::none
              ? shape.with_degree<parallel::axis::replicate>(options.data)
              : shape.with_degree<parallel::axis::shard>(options.data);
  return test::message_of([&] {
    parallel::threads::run(shape.ranks(), [&](communicator& world) {
      parallel::host::device device;
      parallel::host::stream compute, exchanges, exchanges_of_group;
      train::process_groups groups(world.split(0), shape, options.level);
      model<Block> net({.group = {groups.tensor, exchanges_of_group}, .sequence = options.sequence},
                       wrong);
      net.sequence_length = options.sequence_length;
      double const other = world.rank() == 1 ? 0.5 : 0.25;
      parallel::decoupled_adamw const rule{.learning_rate = options.rate_by_rank ? other : 1e-3};
      auto clip = options.clip;
      if (options.clip_by_rank) clip.threshold = other;
      train::stepper step(
          net, device, groups,
          train::optimizer_groups<parallel::decoupled_adamw>(
              {rule},
              [&](auto const&) { return parallel::segment_key{.trainable = !options.frozen}; }),
          {.level = options.level,
           .bucket_bytes = 1,
           .clip = clip,
           .pipeline = {.stages_per_rank = options.stages_per_rank}});
      if (!options.uninitialised)
        step.initialise(options.seed_by_rank ? static_cast<std::uint64_t>(world.rank()) : 1);
      std::vector<std::int32_t> ids(rows), labels(rows);
      for (std::size_t i = 0; i < ids.size(); ++i) {
        ids[i] = static_cast<std::int32_t>(i % vocabulary);
        labels[i] = static_cast<std::int32_t>((i + 1) % vocabulary);
      }
      if (options.two_steppers)
        train::stepper(net, device, groups, rule, {.level = options.level}).initialise(1);
      if (options.replaced) net.column = std::deque<Block>(net.column);
      batch_view const batch{{ids.data(), {rows}}, {labels.data(), {rows}}};
      std::vector<index> const first(options.places,
                                     options.data_by_rank ? world.rank() : groups.data_rank());
      parallel::position const position{
          .seed = options.dropout_by_rank ? static_cast<std::uint64_t>(world.rank()) : 0};
      auto const storage = device.template allocate<std::byte>(
          step.plan_activations(std::span(&batch, 1)) / (options.small_arena ? 2 : 1));
      parallel::arena memory(storage);
      train::statistics_sum<double> sums;
      if (options.evaluates)
        return step.add_evaluation(compute, memory, std::span(&batch, 1), sums);
      static_cast<void>(
          step.step(compute, exchanges, memory, {{&batch, 1}, first, position, options.factor}));
    });
  });
}

/// A mistake of a model or an option of its run, as words of model_mistakes.txt name them.
template <class Settings>
using flags = std::map<std::string, bool Settings::*>;

flags<mistakes> const mistake_flags = {
    {"unit_missing", &mistakes::unit_missing},
    {"parameter_missing", &mistakes::parameter_missing},
    {"slice_only", &mistakes::slice_only},
    {"accumulates", &mistakes::accumulates},
    {"too_many_parts", &mistakes::too_many_parts},
    {"copies_forgotten", &mistakes::copies_forgotten},
    {"partial_forgotten", &mistakes::partial_forgotten},
    {"values_in_entry", &mistakes::values_in_entry},
    {"whole_entry", &mistakes::whole_entry},
    {"overwrites", &mistakes::overwrites},
    {"gradient_forgotten", &mistakes::gradient_forgotten},
    {"all_count", &mistakes::all_count},
    {"has_parts_of_sequences", &mistakes::has_parts_of_sequences},
    {"share_forgotten", &mistakes::share_forgotten},
    {"no_count", &mistakes::no_count},
    {"first_counts_alone", &mistakes::first_counts_alone},
    {"each_counts_half", &mistakes::each_counts_half},
    {"null_use", &mistakes::null_use},
    {"no_dx", &mistakes::no_dx},
    {"adds_to_dx", &mistakes::adds_to_dx},
    {"misshapen", &mistakes::misshapen},
    {"equal_dropouts", &mistakes::equal_dropouts},
    {"never_used", &mistakes::never_used}};

flags<run_options> const option_flags = {{"evaluates", &run_options::evaluates},
                                         {"sequence", &run_options::sequence},
                                         {"uninitialised", &run_options::uninitialised},
                                         {"seed_by_rank", &run_options::seed_by_rank},
                                         {"rate_by_rank", &run_options::rate_by_rank},
                                         {"clip_by_rank", &run_options::clip_by_rank},
                                         {"dropout_by_rank", &run_options::dropout_by_rank},
                                         {"data_by_rank", &run_options::data_by_rank},
                                         {"frozen", &run_options::frozen},
                                         {"two_steppers", &run_options::two_steppers},
                                         {"small_arena", &run_options::small_arena},
                                         {"replaced", &run_options::replaced}};

/// The refusal of a model with mistakes that words such as "unit_missing data=2" name; "accepted"
/// if there is none.
std::string outcome_of(std::string const& words) {
  mistakes wrong;
  run_options options;
  std::string block = "sliced";
  std::istringstream stream(words);
  for (std::string word; stream >> word;) {
    auto const equals = word.find('=');
    auto const name = word.substr(0, equals);
    auto const value = equals == word.npos ? std::string() : word.substr(equals + 1);
    if (auto const mistake = mistake_flags.find(name); mistake != mistake_flags.end())
      wrong.*mistake->second = true;
    else if (auto const option = option_flags.find(name); option != option_flags.end())
      options.*option->second = true;
    else if (name == "part_of_second")
      wrong.part_of_second = std::stoi(value);
    else if (name == "name_of_exit")
      wrong.name_of_exit = value;
    else if (name == "name_of_unit")
      wrong.name_of_unit = value;
    else if (name == "tied_name")
      wrong.tied_name = value;
    else if (name == "data")
      options.data = std::stoi(value);
    else if (name == "tensor")
      options.tensor = std::stoi(value);
    else if (name == "context")
      options.context = std::stoi(value);
    else if (name == "level")
      options.level = value == "parameters" ? zero::level::parameters : zero::level::gradients;
    else if (name == "sequence_length")
      options.sequence_length = std::stoi(value);
    else if (name == "stages_per_rank")
      options.stages_per_rank = std::stoi(value);
    else if (name == "places")
      options.places = std::stoul(value);
    else if (name == "factor")
      options.factor = std::stod(value);
    else if (name == "block")
      block = value;
    else
      FAIL("no mistake or option: ", word);
  }
  auto const message = block == "whole"     ? refusal<whole_branch>(wrong, options)
                       : block == "reading" ? refusal<reading_branch>(wrong, options)
                       : block == "sliced"  ? refusal<sliced_branch>(wrong, options)
                                            : refusal<undeclared_branch>(wrong, options);
  return message.empty() ? "accepted" : message;
}

TEST_CASE("model check: mistakes are refused by name, and models without mistakes train") {
  for (auto const& example :
       test::text_cases("parallel/train/checks/model_mistakes.txt", "mistakes")) {
    auto const outcome = outcome_of(example.text);
    bool const is_expected = example.expected == "accepted"
                                 ? outcome == "accepted"
                                 : test::contains(outcome, example.expected);
    CHECK_MESSAGE(is_expected, example.text, ": ", outcome);
  }
  CHECK(outcome_of("whole_entry tensor=2 sequence").starts_with("the entry (part -1) gives "));
}

TEST_CASE("model check: thresholds of clipping that are not above 0 are refused by name") {
  using enum train::clipping_kind;
  for (auto const kind : {norm, value, adaptive})
    for (double const threshold : {-1.0, 0.0, std::nan("")})
      CHECK(test::contains(
          refusal({}, {.data = 2, .clip = {kind, threshold}}),
          parallel::concat("stepper_options::clip: the threshold of ", train::to_string(kind),
                           " is ", threshold, "; it must be above 0")));
  CHECK(refusal({}, {.clip = {none, -1}}).empty());
}

}  // namespace
}  // namespace model_check_test
