// "--name value" arguments of the GPU benchmarks, which do without a library for them.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include <parallel/core/error.hpp>

namespace bench {

class gpu_arguments {
 public:
  /// Reads the arguments of a main. `known` holds the valid names with their defaults; throws
  /// `error` at an unknown name.
  gpu_arguments(int argc, char** argv, std::map<std::string, std::string> known)
      : values_(std::move(known)) {
    for (int i = 1; i + 1 < argc; i += 2) {
      std::string_view const name = argv[i];
      auto const entry =
          name.starts_with("--") ? values_.find(std::string(name.substr(2))) : values_.end();
      if (entry == values_.end()) refuse(name);
      entry->second = argv[i + 1];
    }
    if (argc % 2 == 0) refuse(argv[argc - 1]);
  }

  [[nodiscard]] std::string const& text(std::string const& name) const { return values_.at(name); }
  [[nodiscard]] long number(std::string const& name) const {
    try {
      return std::stol(values_.at(name));
    } catch (std::exception const&) {
      parallel::fail("--", name, " ", values_.at(name), ": a whole number is needed");
    }
  }
  [[nodiscard]] bool has_value(std::string const& name) const { return !values_.at(name).empty(); }

 private:
  [[noreturn]] void refuse(std::string_view argument) const {
    std::string known_names;
    for (auto const& [name, value] : values_)
      known_names += "\n  --" + name + (value.empty() ? "" : " (" + value + ")");
    parallel::fail("arguments are pairs \"--name value\", not '", argument, "'; the names are",
                   known_names);
  }

  std::map<std::string, std::string> values_;
};

}  // namespace bench
