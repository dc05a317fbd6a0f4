// page_server: serves a page to the browsers of this machine that present its token.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <parallel/core/file.hpp>

namespace apps {

class page_server {
 public:
  /// Listens at 127.0.0.1; `port` 0: the system chooses a free one. Throws where that fails.
  explicit page_server(std::uint16_t port);

  /// The address that shows the page, with the token that this server has chosen.
  [[nodiscard]] std::string address() const;

  /// Answers requests without end; a slow browser holds up no other. `make_page` returns the
  /// current page, or throws a parallel::error, which the browser shows. A browser asks again after
  /// `refresh_seconds`.
  [[noreturn]] void answer(std::function<std::string()> const& make_page, int refresh_seconds);

 private:
  class browser;

  void accept_browser(std::vector<browser>& browsers) const;
  [[nodiscard]] bool has_token(std::string_view target) const;
  [[nodiscard]] std::string response_to(std::string_view request,
                                        std::function<std::string()> const& make_page,
                                        int refresh_seconds) const;

  parallel::descriptor listener_;
  std::uint16_t port_;
  std::string token_;
};

}  // namespace apps
