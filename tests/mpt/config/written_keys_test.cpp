// The keys of a document are those that overrides name.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/config/written_keys.hpp>
#include <mpt/yaml/document.hpp>

namespace written_keys_test {

TEST_CASE("written keys: every value has its dotted name, lists of scalars are one key") {
  std::vector<std::string> const overrides{"optimizer.lr=2.0e-3", "eval_loader.0.label=c4"};
  auto const keys = mpt::written_keys(mpt::make_document(
      "seed: 17\nload_path:\nempty: {}\nnone: []\noptimizer: {lr: 1.0e-3, betas: [0.9, 0.95]}\n"
      "eval_loader:\n- label: a\n  dataset: {local: x}\nname: ${seed}b\nversion: '7'\n",
      "test.yaml", overrides));
  std::vector<mpt::written_key> const items{{"", "0.9"}, {"", "0.95"}};
  std::vector<mpt::written_key> const no_items;
  std::vector<mpt::written_key> const expected{{"seed", "17"},
                                               {"load_path", "null"},
                                               {"empty", "{}"},
                                               {"none", "[]", false, no_items},
                                               {"optimizer.lr", "2.0e-3"},
                                               {"optimizer.betas", "[0.9, 0.95]", false, items},
                                               {"eval_loader.0.label", "c4"},
                                               {"eval_loader.0.dataset.local", "x"},
                                               {"name", "17b", true},
                                               {"version", "7", true}};
  CHECK(keys == expected);
  for (auto const& key : keys)
    if (key.name.starts_with("eval_loader"))
      CHECK_NOTHROW(static_cast<void>(
          mpt::make_document("eval_loader:\n- label: a\n  dataset: {local: x}\n", "test.yaml",
                             std::vector<std::string>{key.name + "=y"})));
}

}  // namespace written_keys_test
