// The model against independent implementations (see support/golden/golden_model.hpp).
#include <doctest/doctest.h>

#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include <mpt/config/model/sizes.hpp>

#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>

#include "support/devices/guarded_device.hpp"
#include "support/laws/golden_laws.hpp"

namespace model_golden_test {

using parallel::index;

parallel::host::device make_host() { return {}; }

TEST_CASE("model, fp64: logits, loss and gradients within 1e-12 of the largest, all forms") {
  test::check_against_truth<double>(1e-12, make_host);
}

TEST_CASE("model, fp32: logits, loss and gradients within 4e-6 of the largest, all forms") {
  // the references' own fp32 runs are off by up to 1e-6
  test::check_against_truth<float>(4e-6, make_host);
}

TEST_CASE("model with adapters: logits, loss and gradients of transformers and PEFT") {
  constexpr char const* with_adapters[] = {"lora"};
  test::check_against_truth<double>(1e-12, make_host, with_adapters);
  test::check_against_truth<float>(4e-6, make_host, with_adapters);
}

TEST_CASE("model with experts: ten steps with balancing losses follow MegaBlocks' formula") {
  constexpr char const* forms[] = {"m_dmoe", "m_plain", "m_moe", "m_shared"};
  test::check_steps<double>(1e-10, make_host, forms);
}

TEST_CASE("model, bf16: no further from fp64 than twice the reference's bf16 run") {
  test::check_against_reference_bf16(make_host);
}

TEST_CASE("parameter counts: total and active parameters are as many as LLM Foundry counts") {
  std::ifstream in(test::golden_folder() / "parameter_counts.json");
  auto const counts = nlohmann::json::parse(in).at("golden_models");
  for (std::string const form : test::golden_forms) {
    CAPTURE(form);
    auto const file = test::golden_file(form);
    auto const config = test::golden_config(file);
    CHECK(mpt::parameter_count(config) == counts.at(form).at("total").get<std::int64_t>());
    CHECK(mpt::active_parameter_count(config) == counts.at(form).at("active").get<std::int64_t>());
    index elements = 0;
    for (auto const& tensor : file.tensors())
      if (tensor.name.starts_with("param/")) elements += tensor.size();
    CHECK(mpt::parameter_count(config) == elements);
  }
}

TEST_CASE("KV cache: tokens read in pieces give the logits of tokens read at once, all forms") {
  test::check_cached_logits<float>(1e-5, make_host);
}

TEST_CASE("KV cache: greedy generation gives transformers' tokens") {
  test::check_greedy_tokens(make_host);
}

TEST_CASE("evaluation: loss and accuracy are those of the reference's logits, all forms") {
  test::check_evaluation<float>(4e-6, make_host);
}

// guarded memory is like a GPU's: host code that reads it directly ends the process
TEST_CASE("model in memory that the host cannot reach: fp32 results and generation are the same") {
  auto const make = [] { return guarded::device(std::size_t{256} << 20); };
  test::check_against_truth<float>(4e-6, make);
  test::check_cached_logits<float>(1e-5, make);
  test::check_greedy_tokens(make);
  test::check_evaluation<float>(4e-6, make);
}

}  // namespace model_golden_test
