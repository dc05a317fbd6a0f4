#include <mpt/callbacks/callback.hpp>

namespace mpt {

void run_control::log(std::string const& name, std::string text) {
  texts_.emplace_back(name, std::move(text));
}

void run_control::stop(std::string const& reason) {
  if (!is_stopped_) say(reason);
  is_stopped_ = true;
}

void run_control::clear() {
  numbers_.clear();
  texts_.clear();
  is_measuring_ = false;
}

}  // namespace mpt
