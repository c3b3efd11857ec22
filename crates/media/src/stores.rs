//! Which stores are faster here: through the cache, which first loads the lines that are stored to, or past it.
//!
//! Processors differ by a factor of two, either way, and so do the memories behind them: so it is measured, once in a
//! process for each size that matters, when the first store of that size needs to know. That takes about a millisecond
//! for large stores, and a fifth of one for small ones.

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod measured;

/// Whether to store so many bytes past the cache where durability does not demand it; `cold`: the lines are probably
/// in no cache.
#[inline]
pub(crate) fn past_cache(bytes: usize, cold: bool) -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    return measured::past_cache(bytes, cold);
    // Elsewhere no stores go past the cache.
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        let _ = (bytes, cold);
        false
    }
}
