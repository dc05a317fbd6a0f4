// "--name value" arguments of the GPU benchmarks, which carry no library for that.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include <parallel/core/error.hpp>

namespace bench {

class gpu_arguments {
 public:
  /// Of a main; `known` are the names there are with their defaults. Throws `error` at another one.
  gpu_arguments(int argc, char** argv, std::map<std::string, std::string> known)
      : values_(std::move(known)) {
    for (int i = 1; i + 1 < argc; i += 2) {
      std::string_view const name = argv[i];
      auto const at =
          name.starts_with("--") ? values_.find(std::string(name.substr(2))) : values_.end();
      if (at == values_.end()) refuse(name);
      at->second = argv[i + 1];
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
  [[nodiscard]] bool given(std::string const& name) const { return !values_.at(name).empty(); }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    std::string all;
    for (auto const& [name, value] : values_)
      all += "\n  --" + name + (value.empty() ? "" : " (" + value + ")");
    parallel::fail("arguments are pairs \"--name value\", not '", what, "'; there are", all);
  }

  std::map<std::string, std::string> values_;
};

}  // namespace bench
