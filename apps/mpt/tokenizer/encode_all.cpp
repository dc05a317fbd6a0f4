#include <mpt/tokenizer/encode_all.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <thread>

namespace mpt {

std::vector<std::vector<std::int32_t>> encode_all(tokenizer const& source,
                                                  std::span<std::string const> texts, int threads) {
  parallel::require(threads >= 1, "encode_all needs at least 1 thread, not ", threads);
  std::vector<std::vector<std::int32_t>> ids(texts.size());
  std::vector<std::exception_ptr> errors(texts.size());
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> failed = false;
  auto const work = [&] {
    word_cache cache;
    while (!failed) {
      auto const i = next.fetch_add(1);
      if (i >= texts.size()) break;
      try {
        source.encode(texts[i], ids[i], cache);
      } catch (...) {
        errors[i] = std::current_exception();
        failed = true;
      }
    }
  };
  {
    std::vector<std::jthread> helpers;
    auto const wanted = std::min(static_cast<std::size_t>(threads), texts.size());
    for (std::size_t i = 1; i < wanted; ++i) helpers.emplace_back(work);
    work();
  }
  for (auto const& error : errors)
    if (error) std::rethrow_exception(error);
  return ids;
}

}  // namespace mpt
