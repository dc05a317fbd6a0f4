// YAML text; after a NUL byte, which is no text, one override of the command line.
#include <mpt/yaml/document.hpp>

#include "../support.hpp"
#include "../targets.hpp"

void fuzz::yaml(std::string_view input) {
  auto const cut = input.find('\0');
  auto const text = input.substr(0, cut);
  std::vector<std::string> overrides;
  if (cut != input.npos) overrides.emplace_back(input.substr(cut + 1));
  refused([&] {
    auto const document = mpt::make_document(text, "f.yaml", overrides);
    mpt::config_size size;
    mpt::add_size(document, size);
    ensure(size.values <= mpt::config_limits{}.values && size.text <= mpt::config_limits{}.text,
           "a document is within its limits");
  });
}
