// The model against independent implementations: LLM Foundry's modeling code (a1-a5, c... and d...)
// and transformers' MptForCausalLM (b...). Golden numbers by tests/reference/make_golden.py.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/config/hf.hpp>
#include <mpt/generate/generate.hpp>
#include <mpt/hf/names.hpp>
#include <mpt/model/model.hpp>
#include <mpt/train/sequences.hpp>
#include <parallel/checkpoint/safetensors.hpp>
#include <parallel/comm/single.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/train/stepper.hpp>

#include "support/golden.hpp"

namespace model_golden_test {

using parallel::index;

/// The id that ends documents in the golden batches of packed texts.
constexpr std::int32_t separator_id = 7;

/// Reads the reference's configuration, in LLM Foundry's names.
mpt::model_config config_of(parallel::checkpoint::safetensors_file const& file) {
  for (auto const& [key, value] : file.metadata())
    if (key == "config") return mpt::from_hf_json(nlohmann::json::parse(value), "golden").model;
  return {};
}

/// One pass of the model in T over a golden file's batch.
template <class T>
struct run {
  using gradient_type = parallel::accumulate_t<T>;
  using stepper = parallel::train::stepper<mpt::model<T>, parallel::host::device, parallel::single,
                                           parallel::decoupled_adamw>;

  parallel::checkpoint::safetensors_file file;
  parallel::host::device device;
  parallel::host::stream compute;
  parallel::single comm;
  mpt::model<T> net;
  stepper step;
  parallel::buffer<std::byte> storage;
  parallel::arena memory;
  std::vector<std::int32_t> ids, labels;
  mpt::sequences documents;  // of the same ids: where they begin
  mpt::microbatch batch;

  explicit run(std::string const& name)
      : file(test::golden_folder() / ("mpt_" + name + ".safetensors")),
        net(config_of(file)),
        step(net, device, comm, parallel::decoupled_adamw{}, {}),
        storage(device.allocate<std::byte>(std::size_t{64} << 20)),
        memory(storage) {
    for (auto const& unit : step.units())
      for (std::size_t s = 0; s < unit.memory.segments().size(); ++s) {
        auto const& m = unit.memory.segments()[s];
        auto const& segment = unit.memory.layout().segments()[s];
        segment.for_each_piece(0, segment.size, [&](auto const& p, index, index, index at) {
          auto const count = static_cast<std::size_t>(p.size());
          REQUIRE(file.at(stored("param/", p.name)).size() == p.size());
          file.read(stored("param/", p.name), 0, std::span(m.values.data() + at, count));
        });
      }
    auto const& shape = file.at("input_ids").extents;
    auto const integers = [&](char const* tensor) {
      std::vector<std::int64_t> wide(static_cast<std::size_t>(file.at(tensor).size()));
      file.read_bytes(tensor, 0, file.at(tensor).size(), std::as_writable_bytes(std::span(wide)));
      return std::vector<std::int32_t>(wide.begin(), wide.end());
    };
    ids = integers("input_ids");
    labels = integers("targets");
    index const rows = file.at("input_ids").size();
    batch = {.ids = {ids.data(), {rows}},
             .labels = {labels.data(), {rows}},
             .sequences = static_cast<index>(shape[0]),
             .length = static_cast<index>(shape[1]),
             .loss_tokens = std::ranges::count_if(labels, [](auto l) { return l >= 0; })};
    if (net.config().attn.attn_uses_sequence_id) {
      using side = mpt::document_separator::side;
      documents = {ids, batch.length, {side::ends_document, separator_id}};
      batch.document_begins = documents.view({0, batch.sequences}).document_begins;
    }
  }

  parallel::context<parallel::host::stream> context() {
    return {compute, memory, parallel::pass::training, {}, batch.length};
  }

  /// Where the file has the numbers of a parameter.
  std::string stored(std::string const& kind, std::string const& name) const {
    auto const plain = std::ranges::any_of(
        file.tensors(), [&](auto const& tensor) { return tensor.name == kind + name; });
    return kind + (plain ? name : mpt::hf::fused_name(name));
  }

  std::vector<double> golden(std::string const& tensor) const {
    std::vector<double> out(static_cast<std::size_t>(file.at(tensor).size()));
    file.read(tensor, 0, std::span(out));
    return out;
  }

  /// Mean loss; gradients (of the mean) are left in the units' buffers times loss tokens.
  double loss() {
    for (auto const& unit : step.units()) unit.memory.clear_gradients(compute);
    parallel::train::statistics<double> sums;
    auto c = context();
    parallel::train::run_microbatch(net, c, batch, sums);
    for (auto const& unit : step.units()) unit.memory.join_uses(compute);
    compute.synchronize();
    CHECK(sums.tokens == batch.loss_tokens);
    return sums.loss / static_cast<double>(sums.tokens);
  }

  std::vector<double> logits() {
    auto c = context();
    parallel::arena::scope const everything(memory);
    parallel::matrix_view<T const> x = net.enter(c, batch);
    std::vector<typename mpt::model<T>::block::saved> kept(net.num_blocks());
    auto links = net.make_links(c, batch, 0, static_cast<index>(net.num_blocks()));
    for (std::size_t i = 0; i < net.num_blocks(); ++i) {
      net.attach(links, static_cast<index>(i), kept[i]);
      x = net.at(i).forward(c, x, kept[i]);
    }
    auto const y = net.logits(c, x);
    compute.synchronize();
    return {y.span().begin(), y.span().end()};
  }

  /// Calls f(name, our gradient of the mean loss).
  template <class F>
  void for_each_gradient(F&& f) const {
    for (auto const& unit : step.units())
      for (std::size_t s = 0; s < unit.memory.segments().size(); ++s) {
        auto const& m = unit.memory.segments()[s];
        auto const& segment = unit.memory.layout().segments()[s];
        segment.for_each_piece(0, segment.size, [&](auto const& p, index, index, index at) {
          std::vector<double> ours(m.gradients[0].data() + at,
                                   m.gradients[0].data() + at + p.size());
          for (auto& g : ours) g /= static_cast<double>(batch.loss_tokens);
          f(p.name, ours);
        });
      }
  }
};

double largest(std::vector<double> const& x) {
  double most = 0;
  for (double const v : x) most = std::max(most, std::abs(v));
  return most;
}

double largest_difference(std::vector<double> const& a, std::vector<double> const& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

double norm_of_difference(std::vector<double> const& a, std::vector<double> const& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

double norm(std::vector<double> const& a) {
  return norm_of_difference(a, std::vector<double>(a.size()));
}

constexpr char const* forms[] = {"a1",           "a2",           "a3",
                                 "a4",           "a5",           "c_rmsnorm",
                                 "c_gelu_tanh",  "c_silu",       "c_quick_gelu",
                                 "c_relu",       "c_glu",        "c_hidden",
                                 "c_ratio",      "c_untied",     "c_softcap",
                                 "c_fused",      "c_modern",     "c_mixed",
                                 "d_grouped",    "d_multiquery", "d_by_head",
                                 "d_capped",     "d_packed",     "d_linear",
                                 "d_llama3",     "d_layers",     "d_reuse",
                                 "d_reuse_bias", "d_xpos",       "d_all",
                                 "b1",           "b2",           "b3"};

/// In T the error against the fp64 truth is at most `bound` of the largest logit and gradient.
template <class T>
void check_against_truth(double bound) {
  for (std::string const form : forms) {
    CAPTURE(form);
    run<T> model(form);
    auto const expected = model.golden("logits64");
    CHECK(largest_difference(model.logits(), expected) <= bound * largest(expected));
    CHECK(std::abs(model.loss() - model.golden("loss64")[0]) <= bound * model.golden("loss64")[0]);
    double scale = 0;
    double error = 0;
    std::size_t compared = 0;
    model.for_each_gradient([&](std::string const& name, std::vector<double> const& ours) {
      auto const truth = model.golden(model.stored("grad64/", name));
      scale = std::max(scale, largest(truth));
      error = std::max(error, largest_difference(ours, truth));
      ++compared;
    });
    CHECK(error <= bound * scale);
    std::size_t parameters = 0;
    for (auto const& tensor : model.file.tensors())
      parameters += tensor.name.starts_with("param/") ? 1U : 0U;
    CHECK(compared == parameters);
    index elements = 0;
    for (auto const& tensor : model.file.tensors())
      if (tensor.name.starts_with("param/")) elements += tensor.size();
    CHECK(mpt::parameter_count(model.net.config()) == elements);
  }
}

TEST_CASE("fp64: logits, loss and gradients within 1e-12 of the largest, all forms") {
  check_against_truth<double>(1e-12);
}

TEST_CASE("fp32: logits, loss and gradients within 4e-6 of the largest, all forms") {
  // the references' own fp32 runs are off by up to 1e-6
  check_against_truth<float>(4e-6);
}

TEST_CASE("bf16: no further from the truth than twice the reference's own bf16 run") {
  for (std::string const form : forms) {
    CAPTURE(form);
    run<parallel::bf16> model(form);
    auto const truth = model.golden("logits64");
    double const theirs = norm_of_difference(model.golden("logits_bf16"), truth);
    CHECK(norm_of_difference(model.logits(), truth) <= 2 * theirs);
    double const loss = model.golden("loss64")[0];
    // the loss is an average of logits' errors: their relative size bounds it
    CHECK(std::abs(model.loss() - loss) <= 2 * theirs / norm(truth) * loss);
    double ours_squared = 0;
    double theirs_squared = 0;
    model.for_each_gradient([&](std::string const& name, std::vector<double> const& ours) {
      auto const gradient = model.golden(model.stored("grad64/", name));
      ours_squared += std::pow(norm_of_difference(ours, gradient), 2);
      theirs_squared +=
          std::pow(norm_of_difference(model.golden(model.stored("grad_bf16/", name)), gradient), 2);
    });
    CHECK(std::sqrt(ours_squared) <= 2 * std::sqrt(theirs_squared));
  }
}

TEST_CASE("parameters and those FLOPs count are as many as LLM Foundry says") {
  std::ifstream in(test::golden_folder() / "parameter_counts.json");
  auto const counts = nlohmann::json::parse(in).at("golden_models");
  for (std::string const form : forms) {
    CAPTURE(form);
    parallel::checkpoint::safetensors_file const file(test::golden_folder() /
                                                      ("mpt_" + form + ".safetensors"));
    auto const config = config_of(file);
    CHECK(mpt::parameter_count(config) == counts.at(form).at("total").get<std::int64_t>());
    CHECK(mpt::active_parameter_count(config) == counts.at(form).at("active").get<std::int64_t>());
  }
}

TEST_CASE("tokens with the KV cache, in pieces, give the logits of all at once, all forms") {
  for (std::string const form : forms) {
    CAPTURE(form);
    run<float> model(form);
    model.batch.document_begins = {};  // generation continues one document
    auto const whole = model.logits();
    auto const vocabulary = static_cast<std::size_t>(model.net.config().vocab_size);
    mpt::generation_cache<float> cache(model.net.config(), model.batch.length, model.device);
    parallel::arena::scope const everything(model.memory);
    auto const length = static_cast<std::size_t>(model.batch.length);
    for (std::size_t at = 0; at < length;) {
      std::size_t const piece = at == 0 ? 3 : 1 + at % 2;  // a prompt, then one or two at a time
      std::size_t const end = std::min(at + piece, length);
      auto const logits =
          mpt::next_logits(model.net, model.device, model.compute, model.memory, cache,
                           {model.ids.data() + at, {static_cast<std::ptrdiff_t>(end - at)}});
      std::vector<double> const got(logits.begin(), logits.end());
      std::vector<double> const expected(
          whole.begin() + static_cast<std::ptrdiff_t>((end - 1) * vocabulary),
          whole.begin() + static_cast<std::ptrdiff_t>(end * vocabulary));
      CHECK(largest_difference(got, expected) <= 1e-5 * largest(whole));
      at = end;
    }
  }
}

TEST_CASE("greedy generation with the KV cache gives transformers' tokens") {
  for (std::string const form : {"b1", "b2"}) {
    CAPTURE(form);
    run<float> model(form);
    auto const as_ids = [&](char const* tensor) {
      std::vector<std::int64_t> wide(static_cast<std::size_t>(model.file.at(tensor).size()));
      model.file.read_bytes(tensor, 0, model.file.at(tensor).size(),
                            std::as_writable_bytes(std::span(wide)));
      return std::vector<std::int32_t>(wide.begin(), wide.end());
    };
    auto const prompt = as_ids("generate/prompt");
    auto const expected = as_ids("generate/ids");
    CHECK(mpt::generate(model.net, model.device, model.compute, prompt,
                        {.max_new_tokens = static_cast<std::int64_t>(expected.size())}) ==
          expected);
  }
}

}  // namespace model_golden_test
