// The charts of the page Overview.
