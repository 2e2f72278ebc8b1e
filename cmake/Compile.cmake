# Flags that every target shares.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

add_library(drafthorse_flags INTERFACE)
# Contraction off: a product and a sum are fused only where the source says fma, so that every
# instruction set gives the same bits (docs/architecture.md, law 1).
target_compile_options(drafthorse_flags INTERFACE -Wall -Wextra -Wno-psabi -ffp-contract=off -fno-math-errno)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 reports overlaps inside std::string that cannot happen (GCC bug 105651).
  target_compile_options(drafthorse_flags INTERFACE -Wno-restrict)
endif()
if(DRAFTHORSE_WERROR)
  target_compile_options(drafthorse_flags INTERFACE -Werror)
endif()
if(DRAFTHORSE_SANITIZE)
  target_compile_definitions(drafthorse_flags INTERFACE _GLIBCXX_ASSERTIONS)
  target_compile_options(drafthorse_flags INTERFACE -fsanitize=${DRAFTHORSE_SANITIZE} -fno-omit-frame-pointer -g1)
  target_link_options(drafthorse_flags INTERFACE -fsanitize=${DRAFTHORSE_SANITIZE})
endif()
if(DRAFTHORSE_FUZZ)
  target_compile_options(drafthorse_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
target_include_directories(drafthorse_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)

# Sanitised builds read the heavy headers once a target: that is half their time. Release builds do without, and so find
# a file that forgot to include what it uses.
function(drafthorse_precompile target)
  if(DRAFTHORSE_SANITIZE)
    target_precompile_headers(${target} PRIVATE <algorithm> <functional> <map> <memory> <optional> <span> <string> <vector> ${ARGN})
  endif()
endfunction()
