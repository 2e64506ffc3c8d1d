# The documentation as pages that need no script: docs/index.md says which there are, and for whom.

SITE_DIR := dist/site

.PHONY: site

site: ## the documentation as plain pages, into dist/site
	@rm -rf $(SITE_DIR)
	@go run ./docs/site/write $(SITE_DIR)
	@echo $(SITE_DIR)/index.html
