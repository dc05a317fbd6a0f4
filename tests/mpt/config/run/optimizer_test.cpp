// Tests of the optimizer's configuration.
#include <string>

#include <doctest/doctest.h>

#include <mpt/config/run/optimizer.hpp>
#include <mpt/yaml/document.hpp>
#include <parallel/support/files.hpp>

#include "mpt/config/refused_settings.hpp"

namespace optimizer_test {

inline mpt::optimizer_config read(std::string const& text, mpt::config_report& report) {
  auto const root = mpt::parse_yaml(text, "f.yaml");
  return mpt::read_optimizer({root, "optimizer", report});
}

inline std::string problem(std::string const& text) {
  mpt::config_report report;
  return test::message_of([&] { static_cast<void>(read(text, report)); });
}

TEST_CASE("optimizer: defaults are LLM Foundry's, and written values replace them") {
  mpt::config_report report;
  CHECK(read("name: decoupled_adamw", report) == mpt::optimizer_config{});
  auto const read_all =
      read("{name: decoupled_adamw, lr: 6.0e-4, betas: [0.8, 0.99], eps: 1e-08, weight_decay: 0.0}",
           report);
  CHECK(read_all.lr == 6e-4);
  CHECK(read_all.beta1 == 0.8);
  CHECK(read_all.beta2 == 0.99);
  CHECK(read_all.eps == 1e-8);
  CHECK(read_all.weight_decay == 0);
  CHECK(report.notes.empty());
  static_cast<void>(read("{name: decoupled_adamw, weight_decay: 0.1}", report));
  REQUIRE(report.notes.size() == 1);
  CHECK(report.notes[0].starts_with("optimizer.weight_decay 0.1 is not multiplied by lr"));
}

TEST_CASE("optimizer: each invalid setting gives one message") {
  for (auto const& [text, message] : test::refused_settings("optimizer"))
    CHECK(problem(text) == message);
}

TEST_CASE("optimizer: Lion has its own defaults, and groups inherit what they do not set") {
  mpt::config_report report;
  auto const plain = read("name: decoupled_lionw", report);
  CHECK(plain.lr == 1e-4);
  CHECK(plain.beta1 == 0.9);
  CHECK(plain.beta2 == 0.99);
  CHECK(plain.weight_decay == 0);
  auto const grouped = read(
      "{name: decoupled_lionw, lr: 1.0e-3, betas: [0.9, 0.95], weight_decay: 1.0e-4, "
      "disable_grad: wte, param_groups: [{param_str_match: norm, weight_decay: 0.0}, "
      "{param_str_match: 'bias$', lr: 2.0e-3}]}",
      report);
  REQUIRE(grouped.disable_grad.size() == 1);
  CHECK(grouped.disable_grad[0].text == "wte");
  REQUIRE(grouped.groups.size() == 2);
  CHECK(grouped.groups[0].match.text == "norm");
  CHECK(grouped.groups[0].lr == 1e-3);
  CHECK(grouped.groups[0].beta2 == 0.95);
  CHECK(grouped.groups[0].weight_decay == 0);
  CHECK(grouped.groups[1].lr == 2e-3);
  CHECK(grouped.groups[1].weight_decay == 1e-4);
  CHECK(report.notes.empty());
}

TEST_CASE("optimizer: Muon has PyTorch's defaults and AdamW settings for the other parameters") {
  mpt::config_report report;
  auto const plain = read("name: muon", report);
  REQUIRE(plain.muon);
  CHECK(plain.muon->learning_rate == 1e-3);
  CHECK(plain.muon->weight_decay == 0.1);
  CHECK(plain.muon->momentum == 0.95);
  CHECK(plain.muon->nesterov);
  CHECK(plain.muon->steps == 5);
  CHECK(plain.lr == 1e-3);
  CHECK(plain.beta2 == 0.95);
  auto const custom = read(
      "{name: muon, lr: 0.02, momentum: 0.9, nesterov: false, ns_steps: 3, weight_decay: 0.0, "
      "adjust_lr_fn: match_rms_adamw, adamw: {lr: 3.0e-4, betas: [0.8, 0.9]}, disable_grad: wte}",
      report);
  REQUIRE(custom.muon);
  CHECK(custom.muon->learning_rate == 0.02);
  CHECK(custom.muon->momentum == 0.9);
  CHECK(!custom.muon->nesterov);
  CHECK(custom.muon->steps == 3);
  CHECK(custom.muon->weight_decay == 0);
  CHECK(custom.muon->adjustment == parallel::muon_adjustment::match_rms_adamw);
  CHECK(custom.lr == 3e-4);
  CHECK(custom.beta1 == 0.8);
  CHECK(custom.disable_grad.at(0).text == "wte");
  CHECK(report.notes.empty());
}

}  // namespace optimizer_test
